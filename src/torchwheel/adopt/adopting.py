"""``torchwheel adopt``: make a PyTorch tree build through torchwheel where a target is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torchwheel._resources import shim_folder
from torchwheel.adopt.files import change_files
from torchwheel.adopt.pyproject_text import adopt_text
from torchwheel.adopt.record import (
    BACKEND_FOLDER,
    RECORD_FILE,
    SHIM_FILE,
    Record,
    digest,
    exact_digest,
    read_record,
)
from torchwheel.adopt.report import Adoption
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.tree import Tree, read_tree


def adopt(path: Path) -> Adoption:
    """Put the shim into the tree at ``path`` and name it as the tree's build backend.

    pyproject.toml keeps its formatting and comments; the original, to the byte, is kept beside the shim. A
    tree that is adopted already gets the current shim.

    Raises:
        TorchwheelError: ``path`` is no PyTorch tree, a file of another origin is in the way, or the tree
            cannot be written to. Nothing is changed then.
    """
    tree = read_tree(path)
    folder = tree.root / BACKEND_FOLDER
    shim = (shim_folder() / SHIM_FILE).read_bytes()
    record = read_record(tree.root)
    _check_the_way(tree, folder, shim, record)
    if tree.adopted:
        changes = _refreshed(tree, folder, shim, record)
    else:
        changes = _adopted(tree, folder, shim)
    there = {file for file in changes if file.exists()}
    change_files(tree.root, changes)
    return Adoption(
        root=tree.root,
        backend=tree.backend,
        already=tree.adopted,
        created=tuple(file.relative_to(tree.root).as_posix() for file in changes if file not in there),
        edited=tuple(file.relative_to(tree.root).as_posix() for file in changes if file in there),
    )


def _adopted(tree: Tree, folder: Path, shim: bytes) -> dict[Path, bytes | None]:
    """The files of a newly adopted tree; pyproject.toml is the last, so that what it names is there."""
    pyproject = tree.root / "pyproject.toml"
    original = pyproject.read_bytes() if pyproject.exists() else None
    adopted = adopt_text((original or b"").decode(), str(pyproject)).encode()
    record = Record(tree.backend, tree.backend_path, original, exact_digest(adopted), digest(shim))
    return {folder / SHIM_FILE: shim, folder / RECORD_FILE: record.to_json(), pyproject: adopted}


def _refreshed(tree: Tree, folder: Path, shim: bytes, record: Record | None) -> dict[Path, bytes | None]:
    """What differs from a tree that this version of torchwheel would have adopted."""
    if record is None:
        raise TorchwheelError(
            Problem(
                id="damaged-adoption",
                what=f"the tree is adopted, but {BACKEND_FOLDER}/{RECORD_FILE} is gone",
                remedy=f"take it from version control, or run `torchwheel adopt --undo {tree.root}` "
                f"and then `torchwheel adopt {tree.root}`",
                why="it names the tree's own build backend and holds its pyproject.toml as it was",
                origin=str(tree.root),
            )
        )
    if digest(shim) == _digest_of(folder / SHIM_FILE):
        return {}
    refreshed = replace(record, shim_digest=digest(shim))
    return {folder / SHIM_FILE: shim, folder / RECORD_FILE: refreshed.to_json()}


def _check_the_way(tree: Tree, folder: Path, shim: bytes, record: Record | None) -> None:
    """Refuse to overwrite a file in the shim's place that adopt did not write, or that was changed since."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        in_the_way, ours = folder, False
    else:
        in_the_way = folder / SHIM_FILE
        written = {digest(shim), record.shim_digest if record else digest(shim)}
        ours = not in_the_way.exists() or _digest_of(in_the_way) in written
    if not ours:
        raise TorchwheelError(
            Problem(
                id="file-in-the-way",
                what=f"{in_the_way} is there already, and torchwheel did not write it like this",
                remedy="move it out of the tree, or delete it, and adopt again",
                why=f"the tree's build backend is to be {folder / SHIM_FILE}",
                origin=str(tree.root),
            )
        )


def _digest_of(file: Path) -> str:
    return digest(file.read_bytes()) if file.is_file() else ""
