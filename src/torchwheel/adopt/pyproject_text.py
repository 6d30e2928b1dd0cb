"""Edit the text of a pyproject.toml to adopt or release it, preserving its formatting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.system.toml import parse_toml
from torchwheel.tree.source_tree import (
    LEGACY_REQUIRES,
    SHIM_BACKEND,
    adopted_table,
    get_subtable,
)

_UNIX_LINE_END = re.compile(r"(?<!\r)\n")
_SHIM_KEYS: Mapping[str, Any] = {"build-backend": SHIM_BACKEND, "backend-path": ["backend"]}
_MOST_CHARACTERS = 1 << 16
"""Maximum characters: editing takes ten times as long as reading."""
_COMMENT = "# The tree's own build backend; `torchwheel adopt --undo` puts it back."


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
    block = (
        _record_block(record) if system is not None else _new_system_block() + "\n" + _record_block(record)
    )
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
        _release_keys(table, record)
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


def _release_keys(table: Any, own: Mapping[str, Any]) -> None:
    for key, ours in _SHIM_KEYS.items():
        if table.get(key) == ours and key in own:
            table[key] = own[key]
        elif table.get(key) == ours:
            del table[key]


def _drop_record(document: Any) -> None:
    if adopted_table(document) is not None:
        del document["tool"]["torchwheel"]["adopted"]


def _new_system_block() -> str:
    return _toml_block("build-system", {"requires": list(LEGACY_REQUIRES), **_SHIM_KEYS})


def _record_block(record: Mapping[str, Any]) -> str:
    return _toml_block("tool.torchwheel.adopted", record, _COMMENT + "\n")


def _toml_block(header: str, keys: Mapping[str, Any], comment: str = "") -> str:
    return f"[{header}]\n{comment}{tomlkit.dumps(keys)}"


def _without_block(text: str, record: Mapping[str, Any]) -> str:
    """Remove what ``adopt_text`` added at the end, if it is unchanged.

    In TOML a comment below a table belongs to it and would be removed too, but it may be the user's.
    """
    added = _record_block(record)
    for block in (_new_system_block() + "\n" + added, added):
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
