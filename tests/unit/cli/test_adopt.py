"""``torchwheel adopt``."""

from __future__ import annotations

from pathlib import Path

from cli.running import Run
from tree.small_trees import write_tree


def test_adopting_and_undoing(program: Run, here: Path) -> None:
    root = write_tree(here / "tree").resolve()
    original = (root / "pyproject.toml").read_bytes()
    result = program("adopt", "tree")
    assert (result.status, result.err, str(root) in result.out) == (0, "", True)
    assert program("adopt", "tree", "--undo").status == 0
    assert (root / "pyproject.toml").read_bytes() == original


def test_as_documents(torchwheel: Run, here: Path) -> None:
    root = write_tree(here / "tree").resolve()
    head = {"schema": 1, "command": "adopt", "root": str(root)}
    head["backend"] = "setuptools.build_meta:__legacy__"
    shim = ["backend/torchwheel_shim.py"]
    assert torchwheel("adopt", "tree", "--json").document("adopt") == {
        **head,
        "did": "adopted",
        "created": shim,
        "edited": ["pyproject.toml"],
        "removed": [],
    }
    assert torchwheel("adopt", "tree", "--undo", "--json").document("adopt") == {
        **head,
        "did": "undone",
        "created": [],
        "edited": ["pyproject.toml"],
        "removed": shim,
    }


def test_a_folder_that_is_no_tree(torchwheel: Run, here: Path) -> None:
    result = torchwheel("adopt", ".", "--undo")
    assert result.refusal == (2, "", ["not-adopted"])
