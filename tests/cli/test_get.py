"""``torchwheel get`` as it is typed; the choice itself is in engine/test_obtain.py."""

from __future__ import annotations

from pathlib import Path

from cli.running import Run

MINITORCH = Path(__file__).parents[2] / "examples" / "minitorch"


def test_what_it_would_be_and_why(torchwheel: Run) -> None:
    result = torchwheel("get", MINITORCH, "--target", "rtx5070", "--dry-run")
    assert result.err == ""
    words = result.out.split()
    assert words[:4] == ["takes", "a", "build", "of"]
    assert "lacks this tree's own source, which is not on a release tag" in " ".join(words)


def test_a_build_that_would_stop_is_told_before(torchwheel: Run) -> None:
    result = torchwheel("get", MINITORCH, "--target", "rtx5070", "-C", "env.CXX=/nowhere/g++", "--dry-run")
    assert result.status == 1
    assert (
        "it would stop: there is no C++ compiler: CXX names /nowhere/g++, which does not exist"
        in " ".join(result.out.split())
    )


def test_a_document(torchwheel: Run) -> None:
    document = torchwheel("get", MINITORCH, "--target", "rtx5070", "--dry-run", "--json").document("get")
    assert {name: document[name] for name in ("way", "install", "wheel")} == {
        "way": "build",
        "install": "",
        "wheel": None,
    }
