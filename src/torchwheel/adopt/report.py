"""What adopting or undoing did, for the caller to print."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Adoption:
    """What ``adopt`` did. Paths are relative to the tree, with ``/``.

    Attributes:
        root: the tree.
        backend: the tree's own build backend, which still builds it where no target is asked for.
        already: whether the tree had been adopted before.
        created: files that were not there.
        edited: files that were.
    """

    root: Path
    backend: str
    already: bool
    created: tuple[str, ...]
    edited: tuple[str, ...]

    def render(self) -> str:
        """The report as text, one fact a line."""
        head = f"{self.root} is adopted already" if self.already else f"adopted {self.root}"
        lines = [head, *_listed("created", self.created), *_listed("edited", self.edited)]
        if self.already and not (self.created or self.edited):
            lines.append("  its shim is up to date")
        lines.append(f"  without a target, {self.backend} builds it as before")
        return "\n".join(lines)


@dataclass(frozen=True)
class Release:
    """What ``undo`` did. Paths are relative to the tree, with ``/``.

    Attributes:
        root: the tree.
        restored: files that are to the byte what they were before adopting.
        edited: files that were edited since, from which only adopt's own edits were taken back.
        removed: files that adopt had written.
        kept: files in backend/ that adopt did not write, or that were changed since.
    """

    root: Path
    restored: tuple[str, ...]
    edited: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]

    def render(self) -> str:
        """The report as text, one fact a line."""
        lines = [
            f"{self.root} is no longer adopted",
            *_listed("restored to the byte", self.restored),
            *_listed("edited since, so only adopt's own edits were taken back in", self.edited),
            *_listed("removed", self.removed),
            *_listed("left in place, because adopt did not write it like this", self.kept),
        ]
        return "\n".join(lines)


def _listed(what: str, files: tuple[str, ...]) -> list[str]:
    return [f"  {what}: {', '.join(files)}"] if files else []
