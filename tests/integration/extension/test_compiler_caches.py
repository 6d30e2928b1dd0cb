"""ccache answers for an extension's C++ from another folder, with what would have been compiled there."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from extension.projects import CMAKE, MODULE, TABLE, WAYS, Built

pytestmark = [
    pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed"),
]
ANSWERED = re.compile(r"torchwheel: ccache answered (\d+) of (\d+) compilations")
NAMED = "const char* volatile here = __FILE__;\nconst char* volatile there = named();\n"
HEADER = "#define OWN first\ninline const char* named() { return __FILE__; }\n"
# A second extension of the same source, whose module has the same name.
OTHER = {
    "tables": WAYS["tables"]["pyproject.toml"] + TABLE.replace("tiny", "other"),
    "CMake": f"{CMAKE}torchwheel_add_extension(NAME other._C SOURCES csrc/*.cpp)\n"
    "target_include_directories(other._C PRIVATE include)\n",
    "setup.py": WAYS["setup.py"]["setup.py"]
    .replace("[extension]", "[extension, other]")
    .replace(
        "setup(\n", "other = CppExtension('other._C', ['csrc/bind.cpp'], include_dirs=['include'])\nsetup(\n"
    ),
}


def project(folder: Path, way: str) -> Built:
    """A project of one source, which asks for its own name and for its header's."""
    built = Built(folder, way)
    built.write("include/own.h", HEADER)
    built.write("csrc/bind.cpp", MODULE + NAMED)
    built.project = built.project.rename(folder / "p")
    return built


def build(built: Built, store: Path, **variables: str) -> list[tuple[str, str]]:
    """How many compilations of a build ccache answered, and of how many."""
    status, text = built.said(CCACHE_DIR=str(store), **{"TORCH_NO_COMPILER_WRAPPER": "0", **variables})
    assert status == 0, text
    return ANSWERED.findall(text)


@pytest.mark.long
@pytest.mark.parametrize("way", list(WAYS))
def test_it_answers_from_another_folder(plain_path: Path, way: str) -> None:
    """Also where the way from the build folder to the source is short, and not the same."""
    one, two = project(plain_path / "one", way), project(plain_path / "two", way)
    far, store = str(plain_path / "a/longer/way"), plain_path / "store"
    assert build(one, store, TORCHWHEEL_CACHE_DIR=far) == [("0", "1")]
    assert build(two, store) == [("1", "1")]
    # What the object depends on is here.
    two.write("include/own.h", HEADER.replace("first", "second"))
    assert two.mark(TORCH_NO_COMPILER_WRAPPER="0", CCACHE_DIR=str(store)) == "second, nothing"


@pytest.mark.parametrize("way", list(WAYS))
def test_a_reproducible_wheel_is_the_same_with_it_and_without(tmp_path: Path, way: str) -> None:
    """Also where a build folder lies in the project, and ccache calls sources by the way from there."""
    epoch, wheels = {"SOURCE_DATE_EPOCH": "1700000000"}, []
    for place, variables in (
        ("none", {"TORCH_NO_COMPILER_WRAPPER": "1"}),
        ("an/other", {}),
        ("inside", {"TORCHWHEEL_BUILD_DIR": "build"}),
    ):
        built = project(tmp_path / place, way)
        built.write(
            "pyproject.toml" if way == "tables" else {"CMake": "CMakeLists.txt"}.get(way, way), OTHER[way]
        )
        build(built, tmp_path / "store", **epoch, **variables)
        (wheel,) = (built.folder / "out").glob("*.whl")
        wheels.append(wheel.read_bytes())
    assert wheels[1:] == wheels[:1] * 2


def built_files(built: Built, *, ccache: bool, **config: str) -> list[str]:
    """The objects that a build compiles, on a PATH that ccache is on or not, and the ids of what it says."""
    programs = built.folder / "programs"
    if not programs.exists():
        programs.mkdir()
        for place in os.environ["PATH"].split(os.pathsep):
            for program in Path(place).iterdir() if Path(place).is_dir() else ():
                link = programs / program.name
                if "ccache" not in program.name and not link.is_symlink() and program.exists():
                    link.symlink_to(program)
        (built.folder / "optional").mkdir()
        (built.folder / "optional/ccache").symlink_to(str(shutil.which("ccache")))
    path = [str(built.folder / "optional")] if ccache else []
    variables = {"PATH": os.pathsep.join([*path, str(programs)]), "CCACHE_DIR": str(built.folder / "store")}
    status, text = built.said(config, TORCH_NO_COMPILER_WRAPPER="0", **variables)
    assert status == 0, text
    kept = ["kept"] if "[compiler-cache-kept]" in text else []
    return [*kept, *re.findall(r"^\[\d+/\d+\] (?:Building|compile) .*", text, re.MULTILINE)]


@pytest.mark.long
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("begun", [True, False], ids=["begun with it", "begun without it"])
def test_a_cache_that_comes_or_goes_compiles_nothing_again(plain_path: Path, way: str, begun: bool) -> None:
    built = project(plain_path, way)
    assert len(built_files(built, ccache=begun)) == 1
    assert built_files(built, ccache=not begun) == ["kept"]
    assert built_files(built, ccache=begun) == []
    built.write("include/own.h", HEADER.replace("first", "second"))
    assert len(built_files(built, ccache=not begun)) == 2
    assert built.mark_in() == "second, nothing"
    # It is changed where somebody asks for that.
    other = {"compiler-cache": "none" if begun else "ccache"}
    assert len(built_files(built, ccache=True, **other)) == 1
