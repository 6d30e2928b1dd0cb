"""``torchwheel adopt``: make a PyTorch tree build through torchwheel if a target is requested; and undo that."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel.adopt.pyproject_text import (
    OwnBuildSystem,
    adopt_text,
    own_build_system,
    release_text,
    remembered_build_system,
)
from torchwheel.reporting.errors import refusal
from torchwheel.system.files import atomic_replace, remove_leftovers, shim_folder
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.tree.read_tree import read_tree
from torchwheel.tree.source_tree import SHIM_BACKEND, Tree, is_adopted, read_pyproject


@dataclass(frozen=True)
class Adoption:
    """The result of ``adopt``. Paths are relative to the tree, with ``/``."""

    root: Path
    backend: str
    already: bool
    created: tuple[str, ...]
    edited: tuple[str, ...]

    def render(self) -> str:
        head = f"{self.root} is adopted already" if self.already else f"adopted {self.root}"
        lines = [head, *_file_line("created", self.created), *_file_line("edited", self.edited)]
        if self.already and not (self.created or self.edited):
            lines.append("  its shim is up to date")
        lines.append(f"  without a target, {self.backend} builds it as before")
        return "\n".join(lines)


@dataclass(frozen=True)
class Undone:
    """The result of ``undo``. Paths are relative to the tree, with ``/``.

    Attributes:
        edited: files edited since, from which only adopt's own edits were removed.
        kept: files in backend/ that adopt did not write, or that were changed since.
    """

    root: Path
    restored: tuple[str, ...]
    edited: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]

    def render(self) -> str:
        lines = [
            f"{self.root} is no longer adopted",
            *_file_line("restored to the byte", self.restored),
            *_file_line("edited since, so only adopt's own edits were taken back in", self.edited),
            *_file_line("removed", self.removed),
            *_file_line("left in place, because adopt did not write it like this", self.kept),
        ]
        return "\n".join(lines)


def adopt(path: Path) -> Adoption:
    """Put the shim into the tree at ``path`` and name it as the tree's build backend.

    pyproject.toml keeps its formatting and comments; an exact copy of the original is stored beside the shim. An
    adopted tree gets the current shim.
    """
    tree = read_tree(path)
    shim = _shipped_shim()
    record = read_adoption_record(tree.root)
    _require_free_place(tree.root / BACKEND_FOLDER, tree, record)
    changes = _refreshed_files(tree, shim, record) if tree.adopted else _adopted_files(tree, shim)
    there = [file for file in changes if exists(file)]
    change_files(tree.root, changes)
    return Adoption(
        root=tree.root,
        backend=tree.backend,
        already=tree.adopted,
        created=_relative_paths(tree.root, [file for file in changes if file not in there]),
        edited=_relative_paths(tree.root, there),
    )


def _adopted_files(tree: Tree, shim: bytes) -> dict[Path, bytes | None]:
    """Return the files of a newly adopted tree; pyproject.toml is the last, so that the files it names exist."""
    pyproject, folder = tree.root / "pyproject.toml", tree.root / BACKEND_FOLDER
    original = pyproject.read_bytes() if exists(pyproject) else None
    adopted = adopt_text((original or b"").decode(), str(pyproject)).encode()
    record = AdoptionRecord(
        tree.backend, tree.backend_path, original, exact_digest(adopted), hash_content(shim)
    )
    return {folder / SHIM_FILE: shim, folder / RECORD_FILE: record.to_json(), pyproject: adopted}


def _refreshed_files(tree: Tree, shim: bytes, record: AdoptionRecord | None) -> dict[Path, bytes | None]:
    """Return the files that differ from what this version of torchwheel would write."""
    if record is None:
        raise refusal(
            "damaged-adoption", origin=tree.root, file=f"{BACKEND_FOLDER}/{RECORD_FILE}", root=tree.root
        )
    folder = tree.root / BACKEND_FOLDER
    if is_file(folder / SHIM_FILE) and hash_content(shim) == hash_content((folder / SHIM_FILE).read_bytes()):
        return {}
    refreshed = replace(record, shim_digest=hash_content(shim))
    return {folder / SHIM_FILE: shim, folder / RECORD_FILE: refreshed.to_json()}


def _require_free_place(folder: Path, tree: Tree, record: AdoptionRecord | None) -> None:
    """Refuse to overwrite a file at the shim's path that adopt did not write, or that was changed since."""
    is_folder = is_dir(folder) and not folder.is_symlink()
    in_the_way = folder / SHIM_FILE if is_folder else folder
    if not in_the_way.is_symlink() and not exists(in_the_way):
        return
    if not is_folder or not _is_ours(in_the_way, record):
        raise refusal("file-in-the-way", origin=tree.root, file=in_the_way, shim=folder / SHIM_FILE)


def undo(path: Path) -> Undone:
    """Reverse ``adopt`` on the tree at ``path``.

    A pyproject.toml that was not edited since is restored to the byte; in an edited one, only adopt's own edits are
    reverted. Files that adopt wrote are removed, unless they were changed.
    """
    root = path.resolve()
    pyproject, folder = root / "pyproject.toml", root / BACKEND_FOLDER
    record = read_adoption_record(root)
    if not is_adopted(read_pyproject(root)) and record is None:
        raise refusal("not-adopted", origin=path / "pyproject.toml", tree=path)
    current = pyproject.read_bytes() if is_file(pyproject) else None
    exact = record is not None and (current is None or exact_digest(current) == record.adopted_digest)
    released = record.original if record and exact else _released_pyproject(current or b"", record, pyproject)
    ours = [
        file
        for file in (folder / SHIM_FILE, folder / RECORD_FILE)
        if is_file(file) and (file.name == RECORD_FILE or _is_ours(file, record))
    ]
    change_files(root, {pyproject: released, **dict.fromkeys(ours)})
    _remove_compiled_shim(folder)
    name = () if released in (None, current) else (pyproject.name,)
    return Undone(
        root=root,
        restored=name if exact else (),
        edited=() if exact else name,
        removed=_relative_paths(
            root, ours if released is not None or current is None else [pyproject, *ours]
        ),
        kept=_relative_paths(root, sorted(folder.iterdir()) if is_dir(folder) else []),
    )


def _released_pyproject(current: bytes, record: AdoptionRecord | None, pyproject: Path) -> bytes | None:
    """Return an edited pyproject.toml without adopt's edits; None if adopt created it and nothing else is in it."""
    text = current.decode()
    own = _own_build_system(text, record, pyproject)
    released = release_text(text, own, str(pyproject)).encode()
    created = record is not None and record.original is None
    return None if created and not released.strip() else released


def _own_build_system(text: str, record: AdoptionRecord | None, pyproject: Path) -> OwnBuildSystem:
    if record is not None:
        return own_build_system((record.original or b"").decode(), f"{BACKEND_FOLDER}/{RECORD_FILE}")
    remembered = remembered_build_system(text, str(pyproject))
    if remembered is None:
        raise refusal("damaged-adoption/both", origin=pyproject, file=f"{BACKEND_FOLDER}/{RECORD_FILE}")
    return remembered


def _shipped_shim() -> bytes:
    return (shim_folder() / SHIM_FILE).read_bytes()


def _is_ours(shim: Path, record: AdoptionRecord | None) -> bool:
    shipped = hash_content(_shipped_shim())
    known = {shipped, record.shim_digest if record else shipped}
    return is_file(shim) and hash_content(shim.read_bytes()) in known


def _remove_compiled_shim(folder: Path) -> None:
    """Remove the shim's compiled file, and the folders that are empty then."""
    cache = folder / "__pycache__"
    # A link may lead out of the tree.
    if not exists(folder / SHIM_FILE) and not cache.is_symlink():
        for compiled in cache.glob(f"{SHIM_BACKEND}.*.pyc"):
            compiled.unlink()
    for emptied in (cache, folder):
        if is_dir(emptied) and not any(emptied.iterdir()):
            emptied.rmdir()


def _relative_paths(root: Path, files: list[Path]) -> tuple[str, ...]:
    return tuple(file.relative_to(root).as_posix() for file in files)


def _file_line(what: str, files: tuple[str, ...]) -> list[str]:
    return [f"  {what}: {', '.join(files)}"] if files else []


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
