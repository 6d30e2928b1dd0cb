from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchwheel.extension.extension_plan import Extension, Language
from torchwheel.extension.options import (
    described_extensions,
    has_extension_tables,
    read_extension_tables,
    refuse_to_leave_out,
)
from torchwheel.hardware.arch import parse_architectures
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.project import Project, read_project

ORIGIN = "pyproject.toml [[tool.torchwheel.extension]]"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "projekt é"
    for name in ("csrc/b.cpp", "csrc/a.cpp", "csrc/a.h", "csrc/cuda/k.cu", "csrc/cuda/sm90/h.cu", "more.c"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", encoding="utf-8")
    return folder


def write(project: Path, text: str) -> Project:
    """The project with this pyproject.toml."""
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    return read_project(project)


def described(project: Path, text: str, *, cuda: bool = True) -> tuple[Extension, ...]:
    tables = read_extension_tables(write(project, text))
    return described_extensions(tables, project, cuda=cuda, defaults={})


def refusal(project: Path, text: str) -> list[tuple[str, str, str, str]]:
    with pytest.raises(TorchwheelError) as caught:
        described(project, text)
    return [(p.id, p.what, p.remedy, p.origin) for p in caught.value.problems]


EVERYTHING = """
[[tool.torchwheel.extension]]
name = "pkg._C"
sources = ["csrc/**/*.cpp", "csrc/*.cpp", "more.c"]
cuda-sources = ["csrc/**/*.cu"]
targets = ["h100", "rtx5070"]
architectures."sm90/*.cu" = "9.0a"
c-flags = ["-Wextra"]
cxx-flags = "-Wextra"
nvcc-flags = ["--use_fast_math", "-Xptxas=-v,-O3"]
link-flags = ["-s"]
include-dirs = ["include"]
library-dirs = ["/opt/lib"]
libraries = ["cublas"]
define = { TILE = 16, FAST = true, SLOW = false, NAME = "x y" }
stable-abi = "2.10"
limited-api = true
unity = true
front-end = "shared"
device-link = true
device-link-libraries = ["nvshmem_device"]
depends = ["csrc/a.h"]
"""


def test_every_key(project: Path) -> None:
    (extension,) = described(project, EVERYTHING)
    assert extension == Extension(
        name="pkg._C",
        sources=("csrc/a.cpp", "csrc/b.cpp", "more.c", "csrc/cuda/k.cu", "csrc/cuda/sm90/h.cu"),
        include_dirs=("include",),
        library_dirs=("/opt/lib",),
        libraries=("cublas",),
        define_macros=(("TILE", "16"), ("FAST", None), ("NAME", "x y"), ("WITH_CUDA", None)),
        undef_macros=("SLOW",),
        flags={
            Language.C: ("-Wextra",),
            Language.CXX: ("-Wextra",),
            Language.CUDA: ("--use_fast_math", "-Xptxas=-v,-O3"),
        },
        link_flags=("-s",),
        device_link=True,
        device_link_libraries=("nvshmem_device",),
        source_architectures={"sm90/*.cu": parse_architectures("9.0a")},
        stable_abi="2.10",
        limited_api=True,
        unity=True,
        front_end="shared",
        depends=("csrc/a.h",),
        origin=f"{ORIGIN} pkg._C",
    )
    (table,) = read_extension_tables(write(project, EVERYTHING))
    assert table.values["targets"] == ("h100", "rtx5070")


def test_files_in_link_flags_are_those_of_the_project(project: Path) -> None:
    """The linker runs elsewhere."""
    (project / "k.map").write_text("", encoding="utf-8")
    (project / "lib").mkdir()
    (project / "a@b=c.map").write_text("", encoding="utf-8")
    given = (
        '["-Wl,--version-script=k.map,-z,now", "-Llib", "-L", "-Lgone", "/k.map", "-lk.map", "-T=a@b=c.map"]'
    )
    (extension,) = described(project, EVERYTHING.replace('["-s"]', given))
    assert extension.link_flags == (
        f"-Wl,--version-script={project / 'k.map'},-z,now",
        f"-L{project / 'lib'}",
        "-L",
        "-Lgone",
        "/k.map",
        "-lk.map",
        f"-T={project / 'a@b=c.map'}",
    )


def test_without_cuda_its_sources_and_the_macro_are_left_out(project: Path) -> None:
    (extension,) = described(project, EVERYTHING, cuda=False)
    assert extension.sources == ("csrc/a.cpp", "csrc/b.cpp", "more.c")
    assert extension.define_macros == (("TILE", "16"), ("FAST", None), ("NAME", "x y"))


def test_a_path_without_a_pattern_stays_whether_it_is_there_or_not(project: Path) -> None:
    (extension,) = described(
        project, '[[tool.torchwheel.extension]]\nname = "x"\nsources = ["./csrc/none.cpp", "/abs/x.cpp"]\n'
    )
    assert extension.sources == ("csrc/none.cpp", "/abs/x.cpp")


def test_a_project_without_tables(project: Path) -> None:
    assert not has_extension_tables(Project(project))
    assert not has_extension_tables(write(project, '[project]\nname = "x"\n'))
    assert has_extension_tables(write(project, EVERYTHING))


def test_architectures_of_sources_in_any_folder_below(project: Path) -> None:
    (extension,) = described(project, EVERYTHING.replace('"sm90/*.cu"', '"csrc/**/h.cu"'))
    assert list(extension.source_architectures) == ["csrc/**/h.cu"]


def test_all_mistakes_at_once(project: Path) -> None:
    text = """
[[tool.torchwheel.extension]]
name = "pkg._C"
source = ["csrc/*.cpp"]
unity = "yes"
architectures."*.cu" = "9.x"
define = 3

[[tool.torchwheel.extension]]
sources = ["csrc/*.cpp", 3]

[[tool.torchwheel.extension]]
name = "pkg.1C"
sources = ["csrc/*.cpp"]
"""
    found = refusal(project, text)
    first, second, third = (f"{ORIGIN} {name}" for name in ("pkg._C", "number 2", "pkg.1C"))
    assert [(what, remedy, origin) for _, what, remedy, origin in found if "9.x" not in what] == [
        ('"source" is not a setting of an extension', "did you mean sources?", first),
        (
            'unity is "yes", which is not true or false',
            "write unity = true, without quotes",
            first,
        ),
        ("define is 3, which is not a table", "write a table, for example define.TILE = 16", first),
        (
            "the extension has no sources",
            'add it, for example sources = ["csrc/**/*.cpp", "csrc/**/*.cu"]',
            first,
        ),
        (
            'sources is ["csrc/*.cpp", 3], which is not a list of texts',
            'write a list of texts, for example sources = ["csrc/**/*.cpp", "csrc/**/*.cu"]',
            second,
        ),
        ("the extension has no name", 'add it, for example name = "texture_kernels._C"', second),
        (
            'name is "pkg.1C", which is not the dotted name of a Python module',
            'write the dotted name of a Python module, for example name = "texture_kernels._C"',
            third,
        ),
    ]
    (architecture,) = [entry for entry in found if "9.x" in entry[1]]
    assert architecture[3] == f"{first} architectures.*.cu"


def test_one_name_for_two(project: Path) -> None:
    one = '[[tool.torchwheel.extension]]\nname = "x"\nsources = ["more.c"]\n'
    assert refusal(project, one + one) == [
        (
            "repeated-setting",
            "2 extensions are named x",
            "merge them, or give each a name of its own",
            ORIGIN,
        )
    ]


def test_a_table_in_place_of_an_array(project: Path) -> None:
    assert refusal(project, '[tool.torchwheel.extension]\nname = "x"\n') == [
        (
            "ill-typed-value",
            "extension is a table, which is not an array of tables",
            "begin each extension with [[tool.torchwheel.extension]]",
            "pyproject.toml [tool.torchwheel]",
        )
    ]


def test_patterns_that_match_nothing_name_the_nearest_files(project: Path) -> None:
    text = """
[[tool.torchwheel.extension]]
name = "x"
sources = ["src/*.cpp", "/abs/*.cpp"]
cuda-sources = ["csrc/cuda/*.cu"]
architectures."sm91/*.cu" = "9.0a"
"""
    assert refusal(project, text) == [
        (
            "no-source-matches",
            'the pattern "src/*.cpp" in sources matches no source file',
            "correct it; there are csrc/a.cpp, csrc/b.cpp, csrc/cuda/k.cu and 2 more",
            f"{ORIGIN} x",
        ),
        (
            "absolute-pattern",
            'the pattern "/abs/*.cpp" in sources is absolute',
            "write it relative to the project, for example csrc/*.cpp; only paths without * may be absolute",
            f"{ORIGIN} x",
        ),
        (
            "no-source-matches",
            'architectures."sm91/*.cu" matches no CUDA source of the extension',
            "name sources by their paths or by patterns; there are csrc/cuda/k.cu",
            f"{ORIGIN} x",
        ),
    ]


def test_a_pattern_of_cuda_sources_is_checked_without_cuda_too(project: Path) -> None:
    text = '[[tool.torchwheel.extension]]\nname = "x"\nsources = ["more.c"]\ncuda-sources = ["*.cu"]\n'
    tables = read_extension_tables(write(project, text))
    with pytest.raises(TorchwheelError) as caught:
        described_extensions(tables, project, cuda=False, defaults={})
    assert [p.what for p in caught.value.problems] == [
        'the pattern "*.cu" in cuda-sources matches no source file'
    ]


def test_an_extension_of_cuda_sources_alone_is_left_out_without_cuda(project: Path) -> None:
    text = '[[tool.torchwheel.extension]]\nname = "x"\ncuda-sources = ["csrc/**/*.cu"]\n'
    assert described(project, text, cuda=False) == ()
    (extension,) = described(project, text)
    assert extension.sources == ("csrc/cuda/k.cu", "csrc/cuda/sm90/h.cu")


@pytest.mark.parametrize(
    ("cuda", "target", "layer", "refused"),
    [
        (None, "rtx5070", Layer.CONFIG, True),
        (None, "rtx5070", Layer.ENVIRONMENT, True),
        (None, "rtx5070", Layer.PROJECT, False),
        (None, "cpu", Layer.CONFIG, False),
        ("13.0", "rtx5070", Layer.CONFIG, False),
    ],
)
@pytest.mark.parametrize("asked", ["target", "arch"])
def test_sources_for_the_gpu_that_was_asked_for_are_not_left_out_silently(
    project: Path, cuda: str | None, target: str, layer: Layer, refused: bool, asked: str
) -> None:
    tables = read_extension_tables(
        write(
            project,
            '[[tool.torchwheel.extension]]\nname = "a._C"\nsources = ["csrc/a.cpp"]\n'
            'cuda-sources = ["csrc/cuda/k.cu"]\n',
        )
    )
    settings = SimpleNamespace(
        is_cpu=target == "cpu",
        skip_check=(),
        get=lambda key: Setting(key, (target,), layer, f"-C {key}") if key == asked else None,
    )
    torch = SimpleNamespace(cuda=cuda, hip=None, version="2.14.1+cpu")
    made: Any = SimpleNamespace(torch=torch, settings=settings, folder=project, pyproject=Project(project))
    if not refused:
        refuse_to_leave_out(tables, made)
        return
    with pytest.raises(TorchwheelError) as caught:
        refuse_to_leave_out(tables, made)
    assert str(caught.value) == (
        Problem.of(
            "torch-without-cuda/left-out",
            origin=f"-C {asked}",
            key=asked,
            value=target,
            torch="2.14.1+cpu",
            extensions="a._C",
        ).render()
    )
    without = read_extension_tables(
        write(project, '[[tool.torchwheel.extension]]\nname = "a._C"\nsources = ["csrc/a.cpp"]\n')
    )
    with pytest.raises(TorchwheelError) as caught:
        refuse_to_leave_out(without, made)
    assert "the CUDA sources of the project would be left out" in str(caught.value)
    refuse_to_leave_out([replace(without[0], values={**without[0].values, "sources": ("k.cu",)})], made)
    made.folder = project / "csrc" / "no"
    refuse_to_leave_out(without, made)
