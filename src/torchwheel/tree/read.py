"""Telling a PyTorch source tree from anything else that a path may name."""

from __future__ import annotations

from pathlib import Path

from torchwheel.errors import Problem
from torchwheel.tree.cmake_options import TOP_FILE

_MARK_OPTION = "USE_CUDA"
_CLONE = "git clone --recursive https://github.com/pytorch/pytorch"


def problem_with(path: Path, origin: str) -> Problem | None:
    """Why ``path`` is no PyTorch source tree; None when it looks like one.

    Args:
        origin: where the path was written, for the message.
    """
    if not path.exists():
        return Problem(
            id="source-missing",
            what=f"there is no folder {path}",
            remedy=f"correct the path, or get the source: {_CLONE}",
            origin=origin,
        )
    if not path.is_dir():
        return Problem(
            id="source-not-a-folder",
            what=f"{path} is a file, not a source tree",
            remedy="give the folder of a PyTorch checkout; unpack an archive first",
            origin=origin,
        )
    return _problem_inside(path, origin)


def _problem_inside(path: Path, origin: str) -> Problem | None:
    try:
        if not any(path.iterdir()):
            return Problem(
                id="source-empty",
                what=f"{path} is empty",
                remedy=f"get the source: {_CLONE} {path}",
                origin=origin,
            )
        missing = _missing_marks(path)
    except OSError as error:
        return Problem(
            id="source-unreadable",
            what=f"{error.filename or path} cannot be read: {error.strerror}",
            remedy="make the source tree readable for you",
            origin=origin,
        )
    if not missing:
        return None
    return Problem(
        id="not-pytorch",
        what=f"{path} is not a PyTorch source tree: it has no {', no '.join(missing)}",
        remedy=_nearby(path) or f"give the top folder of a PyTorch checkout, or get one: {_CLONE}",
        origin=origin,
    )


def _missing_marks(path: Path) -> list[str]:
    """Which of the things that every PyTorch tree has are not there; enough to tell a neighbour from one."""
    marks = {
        "version.txt": (path / "version.txt").is_file(),
        f"{TOP_FILE} that names {_MARK_OPTION}": _names_pytorch_options(path / TOP_FILE),
        "torch/ folder": (path / "torch").is_dir(),
        "pyproject.toml or setup.py": any((path / name).is_file() for name in ("pyproject.toml", "setup.py")),
    }
    return [mark for mark, there in marks.items() if not there]


def _names_pytorch_options(path: Path) -> bool:
    if not path.is_file():
        return False
    return _MARK_OPTION in path.read_text(encoding="utf-8", errors="replace")


def _nearby(path: Path) -> str:
    """A remedy that names the tree above or below ``path``; empty when there is none."""
    candidates = [path.absolute().parent, *sorted(child for child in path.iterdir() if child.is_dir())]
    for candidate in candidates:
        try:
            if not _missing_marks(candidate):
                return f"give {candidate} instead, which is one"
        except OSError:
            continue
    return ""
