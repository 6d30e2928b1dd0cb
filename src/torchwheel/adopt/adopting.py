"""``torchwheel adopt``: make a PyTorch tree build through torchwheel if a target is requested; and undo that."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torchwheel.adopt.pyproject_text import adopt_text, release_text
from torchwheel.reporting.errors import refusal
from torchwheel.system.files import atomic_replace, read_beginning, remove_leftovers, shim_folder
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.tree.read_tree import read_tree
from torchwheel.tree.source_tree import (
    LEGACY_BACKEND,
    SHIM_BACKEND,
    adopted_table,
    is_adopted,
    read_build_system,
    read_pyproject,
)

_SHIM_FILE = f"{SHIM_BACKEND}.py"
_MARK = '"""The build backend of a PyTorch tree that torchwheel was adopted in'
"""How every release's shim begins; only such a file is replaced or removed."""


@dataclass(frozen=True)
class Adoption:
    """The files that ``adopt`` or ``undo`` changed, relative to the tree, with ``/``."""

    root: Path
    backend: str
    created: tuple[str, ...]
    edited: tuple[str, ...]
    removed: tuple[str, ...]
    undone: bool = False

    def render(self) -> str:
        changed = {"created": self.created, "edited": self.edited, "removed": self.removed}
        return "\n".join(
            [
                f"{self.root} is {'no longer ' if self.undone else ''}adopted",
                *(f"  {what}: {', '.join(files)}" for what, files in changed.items() if files),
                f"  {'' if self.undone else 'without a target, '}{self.backend} builds it as before",
            ]
        )


def adopt(path: Path) -> Adoption:
    """Put the shim into the tree at ``path`` and name it as the tree's build backend.

    An adopted tree gets the current shim.
    """
    tree = read_tree(path)
    pyproject, shim = _places(tree.root)
    in_the_way = shim if is_dir(shim.parent) else shim.parent
    if exists(in_the_way) and not _is_shim(in_the_way):
        raise refusal("file-in-the-way", origin=tree.root, file=in_the_way, shim=shim)
    shipped = (shim_folder() / _SHIM_FILE).read_bytes()
    changes: dict[Path, bytes | None] = {}
    if not exists(shim) or shim.read_bytes() != shipped:
        changes[shim] = shipped
    # The last, so that the backend that it names exists.
    if not tree.adopted:
        text = pyproject.read_bytes().decode() if exists(pyproject) else ""
        changes[pyproject] = adopt_text(text, str(pyproject)).encode()
    return _change_files(tree.root, tree.backend, changes)


def undo(path: Path) -> Adoption:
    """Take adopt's edits back out of the pyproject.toml of the tree at ``path``, and remove the shim."""
    root = path.resolve()
    pyproject, shim = _places(root)
    content = read_pyproject(root)
    own = adopted_table(content)
    if is_adopted(content):
        # Refuses a record that is missing or wrong.
        read_build_system(root)
    elif own is None:
        raise refusal("not-adopted", origin=path / "pyproject.toml", tree=path)
    released = release_text(pyproject.read_bytes().decode(), str(pyproject))
    changes = {pyproject: released.encode() if released.strip() else None}
    if _is_shim(shim):
        changes[shim] = None
    return _change_files(root, (own or {}).get("build-backend", LEGACY_BACKEND), changes, undone=True)


def _places(root: Path) -> tuple[Path, Path]:
    return root / "pyproject.toml", root / "backend" / _SHIM_FILE


def _is_shim(path: Path) -> bool:
    return is_file(path) and read_beginning(path).startswith(_MARK)


def _change_files(
    root: Path, backend: str, changes: Mapping[Path, bytes | None], *, undone: bool = False
) -> Adoption:
    """Write files with new content (None: delete), in order. If one fails, the earlier ones are restored.

    Args:
        changes: the files; a symbolic link within the tree is followed, never replaced.
    """
    _require_inside(root, changes)
    before = {path: path.read_bytes() if exists(path) else None for path in changes}
    try:
        for path, content in changes.items():
            _write(path, content)
    except OSError as error:
        for path, content in before.items():
            with suppress(OSError):
                _write(path, content)
        raise refusal(
            "tree-not-writable", origin=root, file=error.filename or root, reason=error.strerror, root=root
        ) from error
    finally:
        _remove_empty_folders(root / "backend")
    names = {path: path.relative_to(root).as_posix() for path in changes}
    return Adoption(
        root=root,
        backend=backend,
        created=tuple(names[path] for path in changes if before[path] is None),
        edited=tuple(names[path] for path, new in changes.items() if None not in (before[path], new)),
        removed=tuple(names[path] for path, new in changes.items() if new is None),
        undone=undone,
    )


def _write(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(exist_ok=True)
    place = path.resolve()
    remove_leftovers(place)
    with atomic_replace(place) as part:
        part.write_bytes(content)
        if exists(place):
            shutil.copymode(place, part)


def _require_inside(root: Path, paths: Iterable[Path]) -> None:
    """Refuse links, also dangling ones, out of the tree or into git's own files, because it may be untrusted."""
    top = root.resolve()
    for path in paths:
        place = path.resolve()
        # Git runs programs that .git/config names.
        if top not in place.parents or ".git" in place.relative_to(top).parts:
            raise refusal("link-leaves-tree", origin=root, file=path, target=place)


def _remove_empty_folders(folder: Path) -> None:
    """Remove the compiled file of a shim that is gone, and the folders that are empty then."""
    cache = folder / "__pycache__"
    # A link may lead out of the tree.
    if not exists(folder / _SHIM_FILE) and not cache.is_symlink() and not folder.is_symlink():
        for compiled in cache.glob(f"{SHIM_BACKEND}.*.pyc"):
            compiled.unlink()
        for emptied in (cache, folder):
            if is_dir(emptied) and not any(emptied.iterdir()):
                emptied.rmdir()
