"""ccache answers for an extension's C++ from another folder, with what would have been compiled there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from extension.projects import CMAKE, MODULE, TABLE, WAYS, Built

pytestmark = [pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")]
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


@pytest.mark.long
@pytest.mark.parametrize("way", list(WAYS))
def test_another_cache_compiles_nothing_again(plain_path: Path, way: str) -> None:
    built, compiled = project(plain_path, way), []
    for cache in ("none", "ccache", "none"):
        status, text = built.said({"compiler-cache": cache}, CCACHE_DIR=str(plain_path / "store"))
        assert status == 0, text
        compiled.append(len(re.findall(r"^\[\d+/\d+\] (?:Building|compile) .*", text, re.MULTILINE)))
    assert compiled == [1, 0, 0]
