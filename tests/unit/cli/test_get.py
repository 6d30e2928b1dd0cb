"""``torchwheel get`` as it is typed; the choice itself is in engine/test_obtain.py."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.running import Run
from places import MINITORCH
from torchwheel.hardware import gpu_catalogue as detect
from torchwheel.host.programs import find_program
from torchwheel.preflight import this_machine
from tree.small_trees import commit_all, git


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The machine that runs the tests may have a driver that is too old for an official build."""
    monkeypatch.setattr(this_machine, "_DRIVER_FILE", tmp_path / "no driver")
    for module in (this_machine, detect):
        monkeypatch.setattr(module, "find_program", _find_other_program)


def _find_other_program(name: str, path: str | None) -> str | None:
    return None if name == "nvidia-smi" else find_program(name, path)


def test_what_it_would_be_and_why(torchwheel: Run) -> None:
    result = torchwheel("get", MINITORCH, "--target", "rtx5070", "--dry-run")
    assert result.err == ""
    words = result.out.split()
    assert words[:4] == ["takes", "a", "build", "of"]
    assert "lacks this tree's own source, which is not on a release tag" in " ".join(words)


def test_a_build_that_would_stop_is_told_before(torchwheel: Run) -> None:
    result = torchwheel("get", MINITORCH, "--target", "rtx5070", "-C", "env.CXX=/nowhere/g++", "--dry-run")
    assert result.status == 2
    assert (
        "it would stop: there is no C++ compiler: CXX names /nowhere/g++, which does not exist"
        in " ".join(result.out.split())
    )


def test_the_command_is_whole_however_narrow_the_terminal_is(
    torchwheel: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    released = tmp_path / "tree"
    shutil.copytree(MINITORCH, released, ignore=shutil.ignore_patterns("__pycache__"))
    (released / "version.txt").write_text("2.14.1\n", encoding="utf-8")
    commit_all(released)
    git(released, "tag", "v2.14.1")
    monkeypatch.setenv("COLUMNS", "70")
    out = torchwheel("get", released, "--target", "gtx1080ti", "--dry-run").out.splitlines()
    command = "pip install torch==2.14.1 --index-url https://download.pytorch.org/whl/cu126"
    assert out[-1] == f"install  {command}"
    assert max(map(len, out[:-1])) <= 70


def test_a_document(torchwheel: Run) -> None:
    document = torchwheel("get", MINITORCH, "--target", "rtx5070", "--dry-run", "--json").document("get")
    assert {name: document[name] for name in ("way", "install", "wheel")} == {
        "way": "build",
        "install": "",
        "wheel": None,
    }
