"""Files of a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def put(path: Path, text: str = "", mode: int | None = None) -> Path:
    """Write a file, in folders that need not be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if mode is not None:
        path.chmod(mode)
    return path


def append(path: Path, text: str) -> None:
    """Write more at the end of a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def put_all(root: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a folder."""
    for name, text in texts.items():
        put(root / name, text)
