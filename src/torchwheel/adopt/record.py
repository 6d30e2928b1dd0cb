"""What ``torchwheel adopt`` notes beside the shim: the build system it replaced, and an exact backup."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.tree.build_system import SHIM_BACKEND

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
class Record:
    """The content of ``backend/torchwheel_shim.json``; the shim reads the first two.

    Attributes:
        backend: the tree's own build backend.
        backend_path: the ``backend-path`` that belongs to it.
        original: pyproject.toml as it was, to the byte; None when there was none.
        adopted_digest: digest of pyproject.toml as adopt left it; another one means that it was edited since.
        shim_digest: digest of the shim as adopt wrote it.
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


def read_record(root: Path) -> Record | None:
    """The record of an adopted tree; None when there is none.

    Raises:
        TorchwheelError: the file is there but is not what adopt writes.
    """
    path = root / BACKEND_FOLDER / RECORD_FILE
    if not path.is_file():
        return None
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        right = all(isinstance(record[key], wanted) for key, wanted in _KEYS.items())
    except (ValueError, KeyError, TypeError):
        right = False
    if not right:
        raise TorchwheelError(
            Problem(
                id="damaged-adoption",
                what="this is not what `torchwheel adopt` writes",
                remedy="take the file from version control, or move it away; "
                f"`torchwheel adopt --undo {root}` then goes by pyproject.toml alone",
                origin=str(path),
            )
        )
    original = record["original-pyproject"]
    return Record(
        backend=record["build-backend"],
        backend_path=tuple(record["backend-path"]),
        original=None if original is None else original.encode(),
        adopted_digest=record["adopted-pyproject-sha256"],
        shim_digest=record["shim-sha256"],
    )


def digest(content: bytes) -> str:
    """SHA-256 of a file's content, the same for both kinds of line ends: version control may change them."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def exact_digest(content: bytes) -> str:
    """SHA-256 of a file's content to the byte."""
    return hashlib.sha256(content).hexdigest()
