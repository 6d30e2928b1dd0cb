"""YAML as services read it: block mappings and sequences, long text as literal blocks, every other text in quotes where
it could be taken for anything else.

By hand, because torchwheel installs on a brand-new Python: of the libraries that write YAML none is among its
dependencies, and an optional one would let the command fail for whoever has not got it. What it writes is read back by
two of them in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

Value = str | int | bool | Mapping[str, "Value"] | Sequence["Value"]

_PLAIN = re.compile(r"(?:[A-Za-z_/$]|\.[A-Za-z/])[A-Za-z0-9_./@+=,$(){}-]*(?: [A-Za-z0-9_./@+=,$(){}-]+)*")
"""Words without what means something in block context: ``:``, ``#``, quotes, indicators, digits ahead."""
_RESERVED = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", ".inf", ".nan"])
"""What YAML 1.1 or 1.2 takes for something else than text: https://yaml.org/type/bool.html."""
_NOT_LITERAL = re.compile(r"[^\x20-\x7e\n]")

_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def yaml_document(value: Mapping[str, Value]) -> str:
    """A document with one mapping."""
    return "\n".join(_mapping(value)) + "\n"


def yaml_text(text: str) -> str:
    """A text on one line: as it is, or in double quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return '"' + "".join(map(_character, text)) + '"'


def _character(one: str) -> str:
    """A character between double quotes; https://yaml.org/spec/1.2.2/#57-escaped-characters."""
    if one in _ESCAPED:
        return _ESCAPED[one]
    code = ord(one)
    if 0x20 <= code < 0x7F:
        return one
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _mapping(value: Mapping[str, Value]) -> Iterator[str]:
    for key, item in value.items():
        yield from _entry(f"{yaml_text(key)}:", item)


def _sequence(value: Sequence[Value]) -> Iterator[str]:
    for item in value:
        if isinstance(item, Mapping) and item:
            first, *rest = _mapping(item)
            yield f"- {first}"
            yield from (f"  {line}" if line else line for line in rest)
        else:
            yield from _entry("-", item)


def _is_literal(text: str) -> bool:
    """Whether it is printable ASCII, ends with one line end and begins with no space: that needs no indicator."""
    framed = text.endswith("\n") and text[0] > " " and text[-2] > " "
    return framed and _NOT_LITERAL.search(text) is None


def _entry(head: str, value: Value) -> Iterator[str]:
    if isinstance(value, bool):
        yield f"{head} {str(value).lower()}"
    elif isinstance(value, int):
        yield f"{head} {value}"
    elif isinstance(value, str) and _is_literal(value):
        yield f"{head} |"
        yield from (f"  {line}" if line else line for line in value[:-1].split("\n"))
    elif isinstance(value, str):
        yield f"{head} {yaml_text(value)}"
    elif not value:
        yield f"{head} {'{}' if isinstance(value, Mapping) else '[]'}"
    else:
        yield head
        lines = _mapping(value) if isinstance(value, Mapping) else _sequence(value)
        yield from (f"  {line}" if line else line for line in lines)
