"""Edit the text of a pyproject.toml to adopt or release it, preserving its formatting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.system.toml import parse_toml
from torchwheel.tree.source_tree import LEGACY_BACKEND, LEGACY_REQUIRES, SHIM_BACKEND, adopted_table

_UNIX_LINE_END = re.compile(r"(?<!\r)\n")
_SHIM_KEYS: Mapping[str, Any] = {"build-backend": SHIM_BACKEND, "backend-path": ["backend"]}
_NEW_TABLE: Mapping[str, Any] = {"requires": list(LEGACY_REQUIRES), **_SHIM_KEYS}
_MOST_CHARACTERS = 1 << 16
"""Maximum characters: editing takes ten times as long as reading."""
_COMMENT = "# The tree's own build backend; `torchwheel adopt --undo` puts it back."


@dataclass(frozen=True)
class OwnBuildSystem:
    """A tree's ``[build-system]`` before it was adopted.

    Attributes:
        keys: its ``build-backend`` and ``backend-path``, if set.
    """

    has_table: bool
    keys: Mapping[str, Any] = field(default_factory=dict)


def own_build_system(text: str, origin: str) -> OwnBuildSystem:
    table = parse_toml(text, origin).get("build-system")
    return OwnBuildSystem(table is not None, _shim_keys_of(table or {}))


def remembered_build_system(text: str, origin: str) -> OwnBuildSystem | None:
    """Read the build system recorded in ``[tool.torchwheel.adopted]``; None without that table."""
    keys = adopted_table(parse_toml(text, origin))
    return None if keys is None else OwnBuildSystem(True, _shim_keys_of(keys))


def adopt_text(text: str, origin: str) -> str:
    """Set the shim as the build backend of a pyproject.toml, and record its own backend."""
    own = own_build_system(text, origin)
    expected = parse_toml(text, origin)
    expected.setdefault("build-system", dict(_NEW_TABLE)).update(_SHIM_KEYS)
    expected.setdefault("tool", {}).setdefault("torchwheel", {})["adopted"] = _recorded_keys(own)

    document = _parse_document(text, origin)
    if own.has_table:
        _set_keys(document["build-system"], _SHIM_KEYS)
    _drop_adopted(document)
    edited = tomlkit.dumps(document)
    # Otherwise the new table's header would continue the last line.
    if edited and not edited.endswith("\n"):
        edited += "\n"
    blocks = "\n".join(["", *_adopted_blocks(own)] if edited else _adopted_blocks(own))
    return _check_result(_with_line_ends_of(text, edited + blocks), expected, origin)


def release_text(text: str, own: OwnBuildSystem, origin: str) -> str:
    """Reverse ``adopt_text`` on a text that was edited since: revert adopt's own changes."""
    expected = parse_toml(text, origin)
    _release_keys(expected, own)
    _drop_adopted(expected)

    document = _parse_document(_without_blocks(text, own), origin)
    _release_keys(document, own)
    _drop_adopted(document)
    return _check_result(tomlkit.dumps(document), expected, origin)


def _shim_keys_of(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: table[key] for key in _SHIM_KEYS if key in table}


def _set_keys(table: Any, keys: Mapping[str, Any]) -> None:
    """Set keys of a tomlkit table; new ones go before the comments and blank lines above the next table."""
    body = table.value.body if isinstance(table, Table) else []
    tail = []
    while body and body[-1][0] is None:
        tail.append(body.pop())
    for key, value in keys.items():
        table[key] = value
    body.extend(reversed(tail))


def _release_keys(document: Any, own: OwnBuildSystem) -> None:
    table = document.get("build-system", {})
    for key, ours in _SHIM_KEYS.items():
        if table.get(key) != ours:
            continue
        if key in own.keys:
            table[key] = own.keys[key]
        else:
            del table[key]
    if not own.has_table and table == {"requires": list(LEGACY_REQUIRES)}:
        del document["build-system"]


def _drop_adopted(document: Any) -> None:
    if adopted_table(document) is None:
        return
    del document["tool"]["torchwheel"]["adopted"]
    if not document["tool"]["torchwheel"]:
        del document["tool"]["torchwheel"]
    if not document["tool"]:
        del document["tool"]


def _recorded_keys(own: OwnBuildSystem) -> dict[str, Any]:
    return {"build-backend": LEGACY_BACKEND, **own.keys}


def _adopted_blocks(own: OwnBuildSystem) -> list[str]:
    adopted = _toml_block("tool.torchwheel.adopted", _recorded_keys(own), _COMMENT)
    return [adopted] if own.has_table else [_toml_block("build-system", _NEW_TABLE), adopted]


def _toml_block(header: str, keys: Mapping[str, Any], comment: str = "") -> str:
    lines = [f"[{header}]", comment, tomlkit.dumps(keys).rstrip("\n")]
    return "\n".join(filter(None, lines)) + "\n"


def _without_blocks(text: str, own: OwnBuildSystem) -> str:
    """Remove those tables from the text if they are unchanged.

    In TOML a comment below a table belongs to it and would be removed too, but it may be the user's.
    """
    for block in reversed(_adopted_blocks(own)):
        for written in (f"\n{block}", block):
            text = text.replace(_with_line_ends_of(text, written), "", 1)
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


def _check_result(text: str, expected: dict[str, Any], origin: str) -> str:
    """Return ``text`` if its content is as expected, so that no damaged file is written."""
    try:
        parsed = parse_toml(text, origin)
    except TorchwheelError as error:
        raise _not_editable(origin, str(error)) from error
    if _without_empty_tables(parsed) != _without_empty_tables(expected):
        raise _not_editable(origin, "the edit would have changed more than it should")
    return text


def _without_empty_tables(document: dict[str, Any]) -> dict[str, Any]:
    """Remove empty ``[tool]`` and ``[tool.torchwheel]`` tables, which are equivalent to missing ones."""
    tool = {key: value for key, value in document.get("tool", {}).items() if key != "torchwheel" or value}
    rest = {key: value for key, value in document.items() if key != "tool"}
    return {**rest, "tool": tool} if tool else rest


def _not_editable(origin: str, why: str) -> TorchwheelError:
    return refusal("pyproject-not-editable", origin=origin, why=why)
