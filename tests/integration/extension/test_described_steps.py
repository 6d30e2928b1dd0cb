"""The steps of tables and of CMake's functions: PyTorch's own command makes them, and runs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extension.planning import inputs, installed
from extension.torch_releases import install
from extension.torch_trees import CUDA_LIBRARIES, TorchTree
from torchwheel.extension.extension_plan import Extension, Language, PlannedExtension
from torchwheel.extension.extension_project import described_plan
from torchwheel.extension.planning import make_extension_plan
from torchwheel.hardware.arch import parse_architectures

Plan = Callable[..., PlannedExtension]


@pytest.fixture
def imported_anew() -> Iterator[None]:
    """What derives from PyTorch's command is imported for the PyTorch that is there then."""
    name = "torchwheel.extension.setuptools_ext"
    before = {name: sys.modules.pop(name)} if name in sys.modules else {}
    yield
    sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported_anew: None) -> Plan:
    """Plans one extension for a PyTorch with CUDA in little."""
    packages = tmp_path / "site-packages"
    install(packages, TorchTree(version="2.14.1+cu130", cuda="13.0", libraries=CUDA_LIBRARIES))
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setenv("TORCH_NO_COMPILER_WRAPPER", "1")
    monkeypatch.setenv("HOME", str(tmp_path))

    def make(build: Path | None = None, *, variables: dict[str, str] | None = None, **options: Any) -> Any:
        given = {"name": "pkg._C", "sources": ("a.cpp", "k.cu"), **options}
        asked = {"arch": given.pop("arch", "12.0"), **given.pop("config", {})}
        config = {key: value for key, value in asked.items() if value}
        torch = installed("2.14.1", packages=str(packages))
        environment = {"PATH": "/usr/bin:/bin", **(variables or {})}
        made = inputs(tmp_path, Extension(**given), torch=torch, config=config, environment=environment)
        whole = described_plan(make_extension_plan(replace(made, below="tw/project" if build else "")), build)
        return whole.extensions[0]

    return make


def words(planned: PlannedExtension, start: str) -> list[list[str]]:
    """The words of every step that begin so."""
    return [[word for word in step.command if word.startswith(start)] for step in planned.steps]


def test_the_commands_of_a_table(planned: Plan) -> None:
    one = planned(
        arguments={
            "include_dirs": ["include"],
            "library_dirs": ["lib"],
            "libraries": ["own"],
            "define_macros": [("TEXT", '"a b"')],
            "extra_link_args": ["-s"],
        },
        flags={Language.CXX: ("-O1",), Language.CUDA: ("-lineinfo",)},
        depends=("table.inc",),
        variables={"CUDAFLAGS": "-DOF_VARIABLE"},
    )
    cxx, nvcc, link = (step.command for step in one.steps)
    assert (cxx[0], nvcc[0], link[0]) == ("/usr/bin/c++", "toolkit/bin/nvcc", "/usr/bin/c++")
    assert one.steps[0].inputs == ("source/a.cpp", "source/table.inc")
    for command in (cxx, nvcc):
        assert {"-Isource/include", '-DTEXT="a b"', "-DTORCH_EXTENSION_NAME=_C", "-std=c++20"} <= {*command}
    assert ("-O1" in cxx, "-O1" in nvcc, "-g" in cxx) == (True, False, False)
    assert {"-lineinfo", "-DOF_VARIABLE", "-MMD", "-Xfatbin=-compress-all"} <= {*nvcc}
    assert nvcc[nvcc.index("-ccbin") + 1] == "/usr/bin/c++"
    assert {"-s", "-lown", "-ltorch_cuda", "-Ltorch/lib", "-Wl,-rpath,$ORIGIN/../torch/lib"} <= {*link}


def test_for_cmake_outputs_are_in_its_folder_and_flags_have_no_file_names(
    planned: Plan, tmp_path: Path
) -> None:
    one = planned(tmp_path / "cmake", variables={"SOURCE_DATE_EPOCH": "1700000000"})
    cxx, nvcc, link = one.steps
    place = cxx.output.removesuffix("/objects/a.cpp.o")
    assert place.startswith("tw/project-")
    assert (link.inputs, Path(link.output).parent) == ((cxx.output, nvcc.output), Path(place))
    ours = {f"-ffile-prefix-map={place.removesuffix('/pkg._C')}/torch=/torch"}
    assert ours <= {*one.flags.compile} <= {*cxx.command}
    assert {"-objtemp", "-Xcudafe=--orig_src_path_name=/pkg._C/k.cu"} <= {*nvcc.command}
    assert {*one.flags.search, *one.flags.libraries} < {*link.command}
    flags = (*one.flags.compile, *one.flags.search, *one.flags.libraries)
    assert not {"-c", "-o", cxx.output, link.output, "tw/source/a.cpp"} & {*flags}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"arch": "8.0;12.0+PTX"}, [["80,code=sm_80", "120,code=sm_120", "120,code=compute_120"]]),
        ({"arch": "8.0;12.0", "front_end": "shared"}, [["80,code=[sm_80,sm_120]"]]),
        (
            {
                "sources": ("k.cu", "sm90/b.cu"),
                "source_architectures": {"sm90/*": parse_architectures("9.0a")},
            },
            [["120,code=sm_120"], ["90a,code=sm_90a"]],
        ),
        (
            {"flags": {Language.CUDA: ("-gencode=arch=compute_80,code=sm_86",)}, "arch": ""},
            [["80,code=sm_86"]],
        ),
        ({"arguments": {"dlink": True}, "flags": {Language.CUDA: ("-rdc=true",)}}, [["120,code=sm_120"]] * 2),
    ],
)
def test_architectures(planned: Plan, options: dict[str, Any], expected: list[list[str]]) -> None:
    one = planned(**{"sources": ("k.cu",), **options})
    images = [
        [word.replace("-gencode=arch=compute_", "") for word in step] for step in words(one, "-gencode")
    ]
    assert [sorted(step) for step in images] == [*map(sorted, expected), []]


@pytest.mark.parametrize(("files", "threads"), [(1, ["--threads=4"]), (2, ["--threads=2"]), (8, [])])
def test_nvcc_works_on_architectures_at_once_where_there_are_few_files(
    planned: Plan, files: int, threads: list[str]
) -> None:
    one = planned(sources=tuple(f"{number}.cu" for number in range(files)), arch="8.0;8.6;9.0;10.0;12.0")
    assert words(one, "--threads")[0] == threads


@pytest.mark.parametrize(
    ("build_type", "cxx", "nvcc"),
    [
        ("Release", set(), set()),
        ("RelWithDebInfo", {"-g"}, {"-g", "-lineinfo"}),
        ("Debug", {"-O0", "-g"}, {"-O0", "-g", "-G"}),
    ],
)
def test_debug_and_line_information_come_with_the_build_type(
    planned: Plan, build_type: str, cxx: set[str], nvcc: set[str]
) -> None:
    one = planned(config={"build-type": build_type})
    added = [{*step.command} & {"-g", "-O0", "-G", "-lineinfo"} for step in one.steps[:2]]
    assert added == [cxx, nvcc]


def test_the_stable_abi(planned: Plan) -> None:
    one = planned(stable_abi="2.10")
    cxx, _, link = (step.command for step in one.steps)
    assert {"-DTORCH_TARGET_VERSION=0x020a000000000000", "-DPy_LIMITED_API=0x030A0000", "-DUSE_CUDA"} <= {
        *cxx
    }
    assert ("-lcudart_static" in link, "-lcudart" in link, "-ltorch_python" in link) == (True, False, False)
    assert one.steps[-1].output == "_C.abi3.so"


def test_unity_files_are_as_many_as_the_square_root_of_their_sources(planned: Plan, tmp_path: Path) -> None:
    sources = ("a.cpp", "sub/b.cpp", "c.cpp", "d.cpp", "x.cu", "y.cu")
    one = planned(tmp_path / "cmake", sources=sources, unity=True)
    joined = {
        step.sources: tmp_path / "cmake" / step.inputs[0] for step in one.steps if len(step.sources) > 1
    }
    assert list(joined) == [("a.cpp", "c.cpp"), ("sub/b.cpp", "d.cpp"), ("x.cu", "y.cu")]
    assert joined["sub/b.cpp", "d.cpp"].read_text("utf-8") == (
        '#include "../../../../tw/source/sub/b.cpp"\n#include "../../../../tw/source/d.cpp"\n'
    )
