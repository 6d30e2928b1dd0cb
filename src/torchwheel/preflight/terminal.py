"""What a terminal can show: lines of its width, and colours if it has them."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import TextIO

_CODES = {"error": "1;31", "warning": "1;33", "note": "1;36", "ok": "32", "heading": "1"}


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether to colour: NO_COLOR forbids it (https://no-color.org), FORCE_COLOR asks for it, else on terminals."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"


def paint(text: str, style: str, colour: bool) -> str:
    """Text in the colour of ``error``, ``warning``, ``note``, ``ok`` or ``heading``."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour else text


def paragraph(text: str, columns: int, first: str = "", later: str | None = None) -> list[str]:
    """Text as lines of at most ``columns``; long words such as paths stay whole."""
    return wrap(
        text,
        columns,
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )
