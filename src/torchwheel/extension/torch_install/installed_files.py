"""Files of an installation that others wrote: read to a bound, and nothing where there is nothing to read."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path, limit: int) -> str | None:
    """The first ``limit`` bytes of a file as text; None for a file that cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(limit).decode("utf-8-sig", "replace")
    except OSError:
        return None


def names_in(folder: Path) -> list[str]:
    """The sorted names of what is in a folder; none for a folder that cannot be read."""
    try:
        return sorted(child.name for child in folder.iterdir())
    except OSError:
        return []
