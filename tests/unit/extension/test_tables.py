from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from put import put
from refusals import error_of, ids_of
from torchwheel.extension.extension_plan import Extension, Language
from torchwheel.extension.options import (
    cuda_left_out,
    described_extensions,
    has_extension_tables,
    read_extension_tables,
)
from torchwheel.hardware.arch import parse_architectures
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.project import Project, read_project

ORIGIN = "pyproject.toml [[tool.torchwheel.extension]]"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "projekt é"
    for name in ("csrc/b.cpp", "csrc/a.cpp", "csrc/a.h", "csrc/cuda/k.cu", "csrc/cuda/sm90/h.cu", "more.c"):
        put(folder / name)
    return folder


def write(project: Path, text: str) -> Project:
    """The project with this pyproject.toml."""
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    return read_project(project)


def described(project: Path, text: str, *, cuda: bool = True) -> tuple[Extension, ...]:
    tables = read_extension_tables(write(project, text))
    return described_extensions(tables, project, cuda=cuda)


def refusal(project: Path, text: str) -> list[tuple[str, str]]:
    return [
        (one.id, one.origin.removeprefix(f"{ORIGIN} ")) for one in error_of(described, project, text).problems
    ]


EVERYTHING = """
[[tool.torchwheel.extension]]
name = "pkg._C"
sources = ["csrc/**/*.cpp", "csrc/*.cpp", "more.c"]
cuda-sources = ["csrc/**/*.cu"]
architectures."sm90/*.cu" = "9.0a"
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
        arguments={
            "include_dirs": ["include"],
            "library_dirs": ["/opt/lib"],
            "libraries": ["cublas"],
            "define_macros": [("TILE", "16"), ("FAST", None), ("NAME", "x y"), ("WITH_CUDA", None)],
            "undef_macros": ["SLOW"],
            "extra_link_args": ["-s"],
            "dlink": True,
            "dlink_libraries": ["nvshmem_device"],
        },
        flags={Language.CXX: ("-Wextra",), Language.CUDA: ("--use_fast_math", "-Xptxas=-v,-O3")},
        source_architectures={"sm90/*.cu": parse_architectures("9.0a")},
        stable_abi="2.10",
        limited_api=True,
        unity=True,
        front_end="shared",
        depends=("csrc/a.h",),
        origin=f"{ORIGIN} pkg._C",
    )


def test_without_cuda_its_sources_and_the_macro_are_left_out(project: Path) -> None:
    (extension,) = described(project, EVERYTHING, cuda=False)
    assert extension.sources == ("csrc/a.cpp", "csrc/b.cpp", "more.c")
    assert extension.arguments["define_macros"] == [("TILE", "16"), ("FAST", None), ("NAME", "x y")]


def test_a_project_without_tables(project: Path) -> None:
    assert not has_extension_tables(Project(project))
    assert not has_extension_tables(write(project, '[project]\nname = "x"\n'))
    assert has_extension_tables(write(project, EVERYTHING))


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
    assert refusal(project, text) == [
        ("unknown-setting", "pkg._C"),
        ("ill-typed-value", "pkg._C"),
        ("unknown-architecture", "pkg._C architectures.*.cu"),
        ("ill-typed-value", "pkg._C"),
        ("incomplete-extension", "pkg._C"),
        ("ill-typed-value", "number 2"),
        ("incomplete-extension", "number 2"),
        ("ill-typed-value", "pkg.1C"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[[tool.torchwheel.extension]]\nname = "x"\nsources = ["more.c"]\n' * 2,
            [("repeated-setting", ORIGIN)],
        ),
        (
            '[tool.torchwheel.extension]\nname = "x"\n',
            [("ill-typed-value", "pyproject.toml [tool.torchwheel]")],
        ),
        (
            '[[tool.torchwheel.extension]]\nname = "x"\nsources = ["src/*.cpp", "/abs/*.cpp", "csrc/a.h"]\n'
            'cuda-sources = ["csrc/cuda/*.cu"]\narchitectures."sm91/*.cu" = "9.0a"\n',
            [*[("no-source-matches", "x")] * 3, ("unknown-source-language", "x")],
        ),
    ],
)
def test_what_is_wrong_with_tables(project: Path, text: str, expected: list[tuple[str, str]]) -> None:
    assert refusal(project, text) == expected


def test_a_pattern_of_cuda_sources_is_checked_without_cuda_too(project: Path) -> None:
    text = '[[tool.torchwheel.extension]]\nname = "x"\nsources = ["more.c"]\ncuda-sources = ["*.cu"]\n'
    tables = read_extension_tables(write(project, text))
    assert ids_of(described_extensions, tables, project, cuda=False) == ["no-source-matches"]


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
    entries = {asked: Setting(asked, (target,), layer, f"-C {asked}")}
    settings = SimpleNamespace(is_cpu=target == "cpu", entries=entries)
    torch = SimpleNamespace(cuda=cuda, hip=None, version="2.14.1+cpu")
    made: Any = SimpleNamespace(torch=torch, settings=settings, folder=project, pyproject=Project(project))
    assert [one.id for one in cuda_left_out(made)] == ["torch-without-cuda"] * refused
    made.folder = project / "csrc" / "no"
    assert not list(cuda_left_out(made))
