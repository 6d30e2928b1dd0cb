"""``torchwheel adopt``."""

from __future__ import annotations

from pathlib import Path

from cli.running import Run
from torchwheel.reporting.errors import Problem
from tree.small_trees import write_tree


def test_adopting_and_undoing(program: Run, here: Path) -> None:
    root = write_tree(here / "tree").resolve()
    original = (root / "pyproject.toml").read_bytes()
    result = program("adopt", "tree")
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        f"adopted {root}\n"
        "  created: backend/torchwheel_shim.py, backend/torchwheel_shim.json\n"
        "  edited: pyproject.toml\n"
        "  without a target, setuptools.build_meta:__legacy__ builds it as before\n"
    )
    result = program("adopt", "tree", "--undo")
    assert result.out == (
        f"{root} is no longer adopted\n"
        "  restored to the byte: pyproject.toml\n"
        "  removed: backend/torchwheel_shim.py, backend/torchwheel_shim.json\n"
    )
    assert (root / "pyproject.toml").read_bytes() == original


def test_as_documents(torchwheel: Run, here: Path) -> None:
    root = write_tree(here / "tree").resolve()
    head = {"schema": 1, "command": "adopt", "root": str(root)}
    files = ["backend/torchwheel_shim.py", "backend/torchwheel_shim.json"]
    assert torchwheel("adopt", "tree", "--json").document("adopt") == {
        **head,
        "did": "adopted",
        "backend": "setuptools.build_meta:__legacy__",
        "already": False,
        "created": files,
        "edited": ["pyproject.toml"],
    }
    assert torchwheel("adopt", "tree", "--undo", "--json").document("adopt") == {
        **head,
        "did": "undone",
        "restored": ["pyproject.toml"],
        "edited": [],
        "removed": files,
        "kept": [],
    }


def test_a_folder_that_is_no_tree(torchwheel: Run, here: Path) -> None:
    result = torchwheel("adopt", ".", "--undo")
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "torchwheel: " + Problem.of("not-adopted", origin="pyproject.toml", tree=".").render() + "\n"
    )
