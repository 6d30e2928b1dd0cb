"""Which compiles of a project are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from extension.planning import plan
from torchwheel.errors import TorchwheelError
from torchwheel.extension.model import Extension, Language
from torchwheel.extension.profile.model import Compiles
from torchwheel.extension.profile.plan_compiles import plan_compiles
from torchwheel.extension.profile.project_compiles import project_plan, selected

CONFIG = {"arch": "9.0;12.0", "jobs": "3"}


def compiles(folder: Path, *, unity: bool = False) -> Compiles:
    sources = ("csrc/a.cpp", "csrc/b.cpp", "csrc/k.cu", "plain.c")
    return plan_compiles(plan(folder, Extension(name="x._C", sources=sources, unity=unity), config=CONFIG))


def test_a_plan_is_measured_in_a_folder_of_its_own(tmp_path: Path) -> None:
    asked = compiles(tmp_path)
    assert asked.folder is None
    assert (asked.project, asked.jobs) == (Path("/home/me/my project"), 3)
    assert {name for name, _ in asked.links} == {"source", "torch", "toolkit"}
    assert [(c.extension, c.sources, c.language, c.path, c.folder) for c in asked.compiles] == [
        ("x._C", ("csrc/a.cpp",), Language.CXX, "source/csrc/a.cpp", "."),
        ("x._C", ("csrc/b.cpp",), Language.CXX, "source/csrc/b.cpp", "."),
        ("x._C", ("csrc/k.cu",), Language.CUDA, "source/csrc/k.cu", "."),
        ("x._C", ("plain.c",), Language.C, "source/plain.c", "."),
    ]
    assert all(c.path in c.command for c in asked.compiles)


def test_a_unity_file_has_several_sources(tmp_path: Path) -> None:
    asked = plan_compiles(
        plan(tmp_path, Extension(name="x._C", sources=("a.cpp", "b.cpp"), unity=True), config={"jobs": "1"})
    )
    (one,) = asked.compiles
    assert one.sources == ("a.cpp", "b.cpp")
    assert [path for path, _ in asked.generated] == [one.path]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], ["csrc/a.cpp", "csrc/b.cpp", "csrc/k.cu", "plain.c"]),
        (["csrc/*.cpp"], ["csrc/a.cpp", "csrc/b.cpp"]),
        (["*.cu", "plain.c"], ["csrc/k.cu", "plain.c"]),
        (["a.cpp"], ["csrc/a.cpp"]),
    ],
)
def test_sources_are_chosen_by_patterns(tmp_path: Path, patterns: list[str], expected: list[str]) -> None:
    assert [c.name for c in selected(compiles(tmp_path), patterns).compiles] == expected


def test_patterns_that_match_nothing_are_all_told(tmp_path: Path) -> None:
    with pytest.raises(TorchwheelError) as caught:
        selected(compiles(tmp_path), ["*.cu", "csrc/kk.cu", "*.zz"])
    why = "    why: its sources are csrc/a.cpp, csrc/b.cpp, csrc/k.cu, plain.c\n"
    assert [problem.render() for problem in caught.value.problems] == [
        "--source: no source of the project matches 'csrc/kk.cu'  [no-such-source]\n"
        f"{why}    fix: did you mean 'csrc/k.cu'?",
        "--source: no source of the project matches '*.zz'  [no-such-source]\n"
        f"{why}    fix: name one of them, or a pattern such as '*.cu'",
    ]


def test_a_project_without_extensions(tmp_path: Path) -> None:
    with pytest.raises(TorchwheelError) as caught:
        project_plan(tmp_path, {}, {})
    assert [problem.id for problem in caught.value.problems] == ["no-extensions"]


def test_a_project_that_only_cmake_understands(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").touch()
    with pytest.raises(TorchwheelError) as caught:
        project_plan(tmp_path, {}, {})
    assert str(caught.value) == (
        f"{tmp_path / 'CMakeLists.txt'}: {tmp_path} describes its extensions to CMake, which knows the commands "
        "once it has configured  [commands-of-cmake]\n"
        "    fix: configure it with CMake for ninja and name its build folder: torchwheel extension profile "
        "--build-folder FOLDER"
    )
