"""Where a test lies says what it needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compilers_started import find_work
from places import REPOSITORY, TESTS
from torchwheel.system.toml import read_toml

FOLDERS = ("arm", "chaos", "field", "integration", "real_tree", "releases", "unit")


def test_every_test_lies_in_a_folder_of_tests() -> None:
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    assert len(files) > 200
    assert {path.parts[0] for path in files} == set(FOLDERS)


@pytest.mark.parametrize("folder", ["arm", "chaos", "field", "real_tree", "releases"])
def test_what_a_folder_of_its_own_needs_is_its_mark(folder: str) -> None:
    for path in TESTS.joinpath(folder).glob("test_*.py"):
        assert f"pytest.mark.{folder}" in path.read_text(encoding="utf-8"), path.name


def test_no_unit_test_has_a_mark_of_what_it_needs() -> None:
    lines = read_toml(REPOSITORY / "pyproject.toml")["tool"]["pytest"]["ini_options"]["markers"]
    names = [line.partition(":")[0] for line in lines]
    assert "nvcc" in names
    for path in TESTS.joinpath("unit").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        assert [name for name in names if f"mark.{name}" in text] == [], path


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that lies in no temporary folder."""
    if sys.platform == "win32":
        pytest.skip("programs are files with the executable bit")
    for name in ("g++-12", "x86_64-linux-gnu-gcc", "nvcc", "cmake", "ninja", "python3", "ccache"):
        tmp_path.joinpath(name).write_text("#!/bin/sh\n", encoding="utf-8")
        tmp_path.joinpath(name).chmod(0o755)
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/nowhere")
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "g++-12 -c a.cpp",
        "x86_64-linux-gnu-gcc a.c",
        "nvcc --version -c a.cu",
        "cmake -S .",
        "ninja",
        "ninja -t deps",
    ],
)
def test_a_command_that_compiles_is_seen(line: str, tools: Path) -> None:
    words = line.split()
    assert find_work(words[0], words, str(tools)) == f"{tools / words[0]} {' '.join(words[1:])}".rstrip()
    assert find_work(tools / words[0], words) != ""


@pytest.mark.parametrize(
    "line",
    ["g++-12 --version", "nvcc --list-gpu-code", "cmake --version", "python3 -c 1", "ccache -s", "absent"],
)
def test_a_question_or_another_program_is_none(line: str, tools: Path) -> None:
    words = line.split()
    assert find_work(words[0], words, str(tools)) == ""


def test_a_stand_in_is_none(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tools.parent))
    assert find_work("ninja", ["ninja"], str(tools)) == ""
