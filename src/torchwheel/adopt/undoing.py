"""``torchwheel adopt --undo``: give a tree its own build system back."""

from __future__ import annotations

from pathlib import Path

from torchwheel._resources import shim_folder
from torchwheel.adopt.files import change_files
from torchwheel.adopt.pyproject_text import (
    OwnBuildSystem,
    is_adopted,
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
from torchwheel.tree.build_system import SHIM_BACKEND


def undo(path: Path) -> Release:
    """Reverse ``adopt`` on the tree at ``path``.

    A pyproject.toml that nobody edited since becomes what it was, to the byte; in one that was edited, adopt's
    own edits are taken back. Files that adopt wrote are removed, unless they were changed.

    Raises:
        TorchwheelError: the tree is not adopted, or cannot be written to. Nothing is changed then.
    """
    root = path.resolve()
    pyproject = root / "pyproject.toml"
    record = read_record(root)
    current = pyproject.read_bytes() if pyproject.is_file() else None
    if record is None and not (current is not None and is_adopted(current.decode(), str(pyproject))):
        raise TorchwheelError(
            Problem(
                id="not-adopted",
                what=f"{path} is not adopted",
                remedy="give the folder of a tree on which `torchwheel adopt` was run",
                origin=str(pyproject),
            )
        )
    exact = record is not None and (current is None or exact_digest(current) == record.adopted_digest)
    released = record.original if record and exact else _released(current or b"", record, pyproject)
    folder = root / BACKEND_FOLDER
    ours = [file for file in (folder / SHIM_FILE, folder / RECORD_FILE) if _is_ours(file, record)]
    change_files(root, {pyproject: released, **dict.fromkeys(ours)})
    kept = _emptied(folder)
    ...
