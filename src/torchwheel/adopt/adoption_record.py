"""Write the files of ``torchwheel adopt`` into a tree, all or nothing, with a record and backup beside the shim."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.reporting.errors import refusal
from torchwheel.system.files import atomic_replace, remove_leftovers
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.tree.source_tree import SHIM_BACKEND

BACKEND_FOLDER = "backend"
SHIM_FILE = f"{SHIM_BACKEND}.py"
RECORD_FILE = f"{SHIM_BACKEND}.json"

_KEYS: dict[str, type | tuple[type, ...]] = {
    "build-backend": str,
    "backend-path": list,
    "original-pyproject": (str, type(None)),
    "adopted-pyproject-sha256": str,
    "shim-sha256": str,
}


@dataclass(frozen=True)
class AdoptionRecord:
    """The content of ``backend/torchwheel_shim.json``; the shim reads the first two.

    Attributes:
        adopted_digest: digest of pyproject.toml after adopting; another one means that it was edited since.
    """

    backend: str
    backend_path: tuple[str, ...]
    original: bytes | None
    adopted_digest: str
    shim_digest: str

    def to_json(self) -> bytes:
        """The file's content. JSON escapes keep the backup exact when version control converts line ends."""
        record = {
            "build-backend": self.backend,
            "backend-path": list(self.backend_path),
            "original-pyproject": None if self.original is None else self.original.decode(),
            "adopted-pyproject-sha256": self.adopted_digest,
            "shim-sha256": self.shim_digest,
        }
        return (json.dumps(record, indent=2) + "\n").encode()


def read_adoption_record(root: Path) -> AdoptionRecord | None:
    """Read the record of an adopted tree; None if there is none."""
    path = root / BACKEND_FOLDER / RECORD_FILE
    if not is_file(path):
        return None
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        right = all(isinstance(record[key], wanted) for key, wanted in _KEYS.items())
    except (ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise refusal("damaged-adoption/record", origin=path, root=root)
    original = record["original-pyproject"]
    return AdoptionRecord(
        backend=record["build-backend"],
        backend_path=tuple(record["backend-path"]),
        original=None if original is None else original.encode(),
        adopted_digest=record["adopted-pyproject-sha256"],
        shim_digest=record["shim-sha256"],
    )


def hash_content(content: bytes) -> str:
    """SHA-256 of a file's content, independent of line ends, because version control may convert them."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def exact_digest(content: bytes) -> str:
    """SHA-256 of a file's exact content."""
    return hashlib.sha256(content).hexdigest()


def change_files(root: Path, changes: Mapping[Path, bytes | None]) -> None:
    """Write files with new content (None: delete), in order, creating missing parent folders.

    Everything is first written to temporary files, so a full disk shows before anything is changed; then each file is
    replaced atomically. If a step fails, the earlier ones are reverted.

    Args:
        changes: the files; a symbolic link within the tree is followed, never replaced.
    """
    _require_inside(root, changes)
    before = {path: path.read_bytes() if is_file(path) else None for path in changes}
    folders = sorted({path.parent for path in changes if not exists(path.parent)})
    try:
        for folder in folders:
            folder.mkdir()
        with ExitStack() as stack:
            # What was entered last is replaced first.
            for path, content in reversed(list(changes.items())):
                remove_leftovers(path.resolve())
                if content is not None:
                    part = stack.enter_context(atomic_replace(path.resolve()))
                    part.write_bytes(content)
                    if exists(path):
                        shutil.copymode(path, part)
        for path, content in changes.items():
            if content is None:
                path.unlink(missing_ok=True)
    except BaseException as error:
        _take_back(before, folders)
        if isinstance(error, OSError):
            raise refusal(
                "tree-not-writable",
                origin=root,
                file=error.filename or root,
                reason=error.strerror,
                root=root,
            ) from error
        raise


def _require_inside(root: Path, paths: Iterable[Path]) -> None:
    """Refuse links, also dangling ones, out of the tree or into git's own files, because it may be untrusted."""
    top = root.resolve()
    for path in paths:
        place = path.resolve()
        # Git runs programs that .git/config names.
        if top not in place.parents or ".git" in place.relative_to(top).parts:
            raise refusal("link-leaves-tree", origin=root, file=path, target=place)


def _take_back(before: Mapping[Path, bytes | None], folders: list[Path]) -> None:
    for path, content in before.items():
        if content is None and is_file(path):
            path.unlink()
        elif content is not None and (not is_file(path) or path.read_bytes() != content):
            path.write_bytes(content)
    for folder in folders:
        if is_dir(folder):
            folder.rmdir()
