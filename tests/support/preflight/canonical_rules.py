"""The one way in which the files of rules are written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Any

WIDTH = 110
KEYS = (
    "id",
    "severity",
    "scope",
    "quick",
    "yields-to",
    "what",
    "why",
    "fix",
    "more",
    "example",
    "fine",
    "source",
)


def canonical(rows: Iterable[Mapping[str, Any]]) -> str:
    """The text of a file with these rules: their keys in order, long texts wrapped."""
    return "\n".join(
        "[[rule]]\n" + "".join(_pair(key, row[key]) for key in KEYS if key in row) for row in rows
    )


def _pair(key: str, value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in value.items())
        return f"{key} = {{ {', '.join(pairs)} }}\n"
    if isinstance(value, list):
        return f"{key} = [\n{''.join(f'  {json.dumps(item)},' + chr(10) for item in value)}]\n"
    text = json.dumps(value, ensure_ascii=False)
    if len(key) + 3 + len(text) <= WIDTH or isinstance(value, bool) or " " not in value:
        return f"{key} = {text}\n"
    lines = wrap(text[1:-1], WIDTH - 6, break_long_words=False, break_on_hyphens=False)
    return f'{key} = """\\\n' + " \\\n".join(f"  {line}" for line in lines) + '"""\n'
