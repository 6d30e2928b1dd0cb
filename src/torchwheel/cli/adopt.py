"""``torchwheel adopt``: make a PyTorch tree build through torchwheel if a target is requested; and undo that.

The shim is put into the tree and named as its build backend; pyproject.toml keeps its formatting.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import Answer, fields_of, shell_word
from torchwheel.survey import has_extensions
from torchwheel.system.files import atomic_replace, read_beginning, remove_leftovers, shim_folder
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.system.toml import get_subtable, parse_toml
from torchwheel.tree.source_tree import (
    LEGACY_BACKEND,
    LEGACY_REQUIRES,
    SHIM_BACKEND,
    adopted_table,
    is_adopted,
    read_build_system,
    read_pyproject,
    read_tree,
)

_SHIM_FILE = f"{SHIM_BACKEND}.py"
_MARK = '"""The build backend of a PyTorch tree that torchwheel was adopted in'
"""How every release's shim begins; only such a file is replaced or removed."""
_SHIM_KEYS: Mapping[str, Any] = {"build-backend": SHIM_BACKEND, "backend-path": ["backend"]}
_UNIX_LINE_END = re.compile(r"(?<!\r)\n")
_MOST_CHARACTERS = 1 << 16
"""Maximum characters: editing takes ten times as long as reading."""
_COMMENT = "# The tree's own build backend; `torchwheel adopt --undo` puts it back."


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the PyTorch source tree")
    parser.add_argument("--undo", action="store_true", help="restore the tree's own build system")


def run(parsed: argparse.Namespace) -> Answer:
    path = Path(parsed.path)
    if has_extensions(path):
        raise refusal("not-pytorch/extensions", path=path, word=shell_word(parsed.path))
    report = undo(path) if parsed.undo else adopt(path)
    did = "undone" if parsed.undo else "adopted"
    files = fields_of(report, "root", "backend", "created", "edited", "removed")
    return Answer({"did": did, **files}, report.render)


@dataclass(frozen=True)
class Adoption:
    """The files that ``adopt`` or ``undo`` changed, relative to the tree."""

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
    """Put the shim into the tree and name it as its build backend; an adopted tree gets the current shim."""
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

    A symbolic link within the tree is followed, never replaced.
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


def adopt_text(text: str, origin: str) -> str:
    """Set the shim as the build backend of a pyproject.toml, and record its own backend."""
    before = parse_toml(text, origin)
    system = before.get("build-system")
    if not isinstance(system, (dict, type(None))):
        raise _not_editable(origin, "build-system is not a table")
    record = {key: value for key, value in (system or {}).items() if key in _SHIM_KEYS}

    document = _parse_document(text, origin)
    _drop_record(document)
    if system is not None:
        _set_keys(document["build-system"], _SHIM_KEYS)
    edited = tomlkit.dumps(document)
    # Otherwise the new table's header would continue the last line.
    if edited and not edited.endswith("\n"):
        edited += "\n"
    new_system, kept = _added_blocks(record)
    block = new_system + kept if system is None else kept
    adopted = _with_line_ends_of(text, edited + "\n" * bool(edited) + block)
    wanted = {"requires": list(LEGACY_REQUIRES)} if system is None else system
    return _check_result(adopted, before, {**wanted, **_SHIM_KEYS}, record, origin)


def release_text(text: str, origin: str) -> str:
    """Reverse ``adopt_text`` on a text that has its record and may have been edited since."""
    before = parse_toml(text, origin)
    record = adopted_table(before) or {}
    released = _without_block(text, record)
    system = parse_toml(released, origin).get("build-system", {})
    document = _parse_document(released, origin)
    for table in (system, document.get("build-system", {})):
        for key, ours in _SHIM_KEYS.items():
            if table.get(key) == ours and key in record:
                table[key] = record[key]
            elif table.get(key) == ours:
                del table[key]
    _drop_record(document)
    return _check_result(tomlkit.dumps(document), before, system, None, origin)


def _set_keys(table: Any, keys: Mapping[str, Any]) -> None:
    """Set keys of a tomlkit table; new ones go before the comments and blank lines above the next table."""
    body = table.value.body if isinstance(table, Table) else []
    tail = []
    while body and body[-1][0] is None:
        tail.append(body.pop())
    for key, value in keys.items():
        table[key] = value
    body.extend(reversed(tail))


def _drop_record(document: Any) -> None:
    if adopted_table(document) is not None:
        del document["tool"]["torchwheel"]["adopted"]


def _added_blocks(record: Mapping[str, Any]) -> tuple[str, str]:
    """What adopting adds at the end: a build system where there is none, and the record."""
    system = tomlkit.dumps({"requires": list(LEGACY_REQUIRES), **_SHIM_KEYS})
    return f"[build-system]\n{system}\n", f"[tool.torchwheel.adopted]\n{_COMMENT}\n{tomlkit.dumps(record)}"


def _without_block(text: str, record: Mapping[str, Any]) -> str:
    """Remove what ``adopt_text`` added at the end, if it is unchanged.

    In TOML a comment below a table belongs to it and would be removed too, but it may be the user's.
    """
    new_system, kept = _added_blocks(record)
    for block in (new_system + kept, kept):
        for written in (f"\n{block}", block):
            released = text.replace(_with_line_ends_of(text, written), "", 1)
            if released != text:
                return released
    return text


def _with_line_ends_of(text: str, new: str) -> str:
    """Convert ``new`` to the line ends of ``text``; ``\\n`` if those are mixed or missing."""
    windows = "\r\n" in text and not _UNIX_LINE_END.search(text)
    return _UNIX_LINE_END.sub("\r\n", new) if windows else new


def _parse_document(text: str, origin: str) -> tomlkit.TOMLDocument:
    if len(text) > _MOST_CHARACTERS:
        raise _not_editable(origin, f"it has more than {_MOST_CHARACTERS:,} characters")
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise _not_editable(origin, str(error)) from error


def _check_result(text: str, before: Mapping[str, Any], system: object, record: object, origin: str) -> str:
    """Return ``text`` if its content is as expected, so that no damaged file is written."""
    try:
        after = parse_toml(text, origin)
    except TorchwheelError as error:
        raise _not_editable(origin, str(error)) from error
    found = (after.get("build-system", {}), adopted_table(after), _other_content(after))
    if found != (system, record, _other_content(before)):
        raise _not_editable(origin, "the edit would have changed more than it should")
    return text


def _other_content(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return all but the build system and its record; without a table is like with an empty one."""
    tool = get_subtable(document, "tool")
    torchwheel = {key: value for key, value in get_subtable(tool, "torchwheel").items() if key != "adopted"}
    return {**document, "build-system": {}, "tool": {**tool, "torchwheel": torchwheel}}


def _not_editable(origin: str, why: str) -> TorchwheelError:
    return refusal("pyproject-not-editable", origin=origin, why=why)
