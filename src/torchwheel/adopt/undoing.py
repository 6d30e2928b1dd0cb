"""``torchwheel adopt --undo``: give a tree its own build system back."""

from __future__ import annotations

from pathlib import Path

from torchwheel._resources import shim_folder
from torchwheel.adopt.files import change_files
from torchwheel.adopt.pyproject_text import (
    OwnBuildSystem,
    own_build_system,
    release_text,
    remembered_build_system,
)
from torchwheel.adopt.record import (
    BACKEND_FOLDER,
    RECORD_FILE,
    SHIM_FILE,
    Record,
    digest,
    exact_digest,
    read_record,
)
from torchwheel.adopt.report import Release
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.tree.build_system import SHIM_BACKEND, is_adopted, read_pyproject


def undo(path: Path) -> Release:
    """Reverse ``adopt`` on the tree at ``path``.

    A pyproject.toml that nobody edited since becomes what it was, to the byte; in one that was edited,
    adopt's own edits are taken back. Files that adopt wrote are removed, unless they were changed.

    Raises:
        TorchwheelError: the tree is not adopted, or cannot be written to. Nothing is changed then.
    """
    root = path.resolve()
    pyproject = root / "pyproject.toml"
    record = read_record(root)
    if not is_adopted(read_pyproject(root)) and record is None:
        raise TorchwheelError(_not_adopted(path))
    current = pyproject.read_bytes() if pyproject.is_file() else None
    exact = record is not None and (current is None or exact_digest(current) == record.adopted_digest)
    released = record.original if record and exact else _released(current or b"", record, pyproject)
    folder = root / BACKEND_FOLDER
    ours = [file for file in (folder / SHIM_FILE, folder / RECORD_FILE) if _is_ours(file, record)]
    removed = ours if released is not None or current is None else [pyproject, *ours]
    change_files(root, {pyproject: released, **dict.fromkeys(ours)})
    _remove_compiled_shim(folder)
    name = () if released in (None, current) else (pyproject.name,)
    return Release(
        root=root,
        restored=name if exact else (),
        edited=() if exact else name,
        removed=_relative(root, removed),
        kept=_relative(root, sorted(folder.iterdir()) if folder.is_dir() else []),
    )


def _released(current: bytes, record: Record | None, pyproject: Path) -> bytes | None:
    """An edited pyproject.toml without adopt's edits; None when adopt made it and nothing else is in it."""
    text = current.decode()
    own = _own_build_system(text, record, pyproject)
    released = release_text(text, own, str(pyproject)).encode()
    created = record is not None and record.original is None
    return None if created and not released.strip() else released


def _own_build_system(text: str, record: Record | None, pyproject: Path) -> OwnBuildSystem:
    if record is not None:
        original = (record.original or b"").decode()
        return own_build_system(original, f"{BACKEND_FOLDER}/{RECORD_FILE}")
    remembered = remembered_build_system(text, str(pyproject))
    if remembered is None:
        raise TorchwheelError(
            Problem(
                id="damaged-adoption",
                what=f"[tool.torchwheel.adopted] and {BACKEND_FOLDER}/{RECORD_FILE} are both gone",
                remedy="take pyproject.toml from version control",
                why="they hold the tree's own build backend",
                origin=str(pyproject),
            )
        )
    return remembered


def _is_ours(file: Path, record: Record | None) -> bool:
    """Whether adopt wrote this file, and wrote it like this."""
    if not file.is_file() or file.name == RECORD_FILE:
        return file.is_file()
    shipped = digest((shim_folder() / SHIM_FILE).read_bytes())
    return digest(file.read_bytes()) in {shipped, record.shim_digest if record else shipped}


def _remove_compiled_shim(folder: Path) -> None:
    """What Python compiled from the shim goes with it, and so do the folders that are empty then."""
    cache = folder / "__pycache__"
    if not (folder / SHIM_FILE).exists():
        for compiled in cache.glob(f"{SHIM_BACKEND}.*.pyc"):
            compiled.unlink()
    for emptied in (cache, folder):
        if emptied.is_dir() and not any(emptied.iterdir()):
            emptied.rmdir()


def _relative(root: Path, files: list[Path]) -> tuple[str, ...]:
    return tuple(file.relative_to(root).as_posix() for file in files)


def _not_adopted(path: Path) -> Problem:
    return Problem(
        id="not-adopted",
        what=f"{path} is not adopted",
        remedy="give the folder of a tree on which `torchwheel adopt` was run",
        origin=str(path / "pyproject.toml"),
    )
