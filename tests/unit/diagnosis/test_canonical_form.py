"""The catalogue's files are written in one way, so that a change shows only what changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

import pytest

from torchwheel.diagnosis import scanner
from torchwheel.system.toml import read_toml

FOLDER = Path(scanner.__file__).with_name("catalogue")
SCHEMA = json.loads(Path(__file__).with_name("catalogue.schema.json").read_text(encoding="utf-8"))
KEYS = tuple(SCHEMA["$defs"]["entry"]["properties"])
WIDTH = 110


def canonical(tables: list[Mapping[str, Any]]) -> str:
    """The text of a catalogue file that holds these entries."""
    return "\n".join(_entry(table) for table in tables)


def _entry(table: Mapping[str, Any]) -> str:
    lines = [_pair(key, table[key]) for key in KEYS if key in table]
    return "[[entry]]\n" + "".join(line + "\n" for line in lines)


def _pair(key: str, value: Any) -> str:
    if key == "patterns":
        items = [f"{{ needle = {_basic(one['needle'])}, regex = {_literal(one['regex'])} }}" for one in value]
        return _array(key, items, one_line=False)
    if key in ("context", "details"):
        return _array(key, [_literal(one) for one in value])
    if isinstance(value, list):
        return _array(key, [_string(one, 2) for one in value])
    if isinstance(value, dict):
        return f"{key} = {{ " + ", ".join(f"{name} = {_basic(value[name])}" for name in sorted(value)) + " }"
    if isinstance(value, int):
        return f"{key} = {value}"
    return f"{key} = {_string(value, len(key) + 3)}"


def _array(key: str, items: list[str], one_line: bool = True) -> str:
    short = f"{key} = [{', '.join(items)}]"
    if one_line and len(short) <= WIDTH and "\n" not in short:
        return short
    return f"{key} = [\n" + "".join(f"  {item},\n" for item in items) + "]"


def _string(text: str, column: int) -> str:
    if column + len(_basic(text)) <= WIDTH:
        return _basic(text)
    lines = wrap(_basic(text)[1:-1], WIDTH - 6, break_long_words=False, break_on_hyphens=False)
    return '"""\\\n' + " \\\n".join(f"  {line}" for line in lines) + '"""'


def _basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _literal(text: str) -> str:
    return f"'''{text}'''" if "'" in text else f"'{text}'"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_file_is_in_canonical_form(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == canonical(read_toml(path)["entry"])
