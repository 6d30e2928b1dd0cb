"""How a remedy writes a setting: ``-C key=value``, unless whoever reads it writes settings in another way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Spell = Callable[[str, str], str]
"""What stands before a setting's value, from its key and the entry of a table; empty to leave ``-C`` there."""

_SPELL: ContextVar[Spell | None] = ContextVar("_SPELL", default=None)
_SETTING = re.compile(r"-C (?P<quote>['\"]?)(?P<key>[a-z-]+)(?:\.(?P<entry>\w+))?=(?P<ends>(?![^\s,;:.)`]))?")
# A remedy names an option and its variable, for the frontends that pass on options.
_TWICE = re.compile(r"(\b[A-Z_]+=[\w.-]*) or \1(?![\w.-])")


@contextmanager
def settings_written_as(spell: Spell) -> Iterator[None]:
    """Write the settings in remedies as ``spell`` says, in the block."""
    before = _SPELL.set(spell)
    try:
        yield
    finally:
        _SPELL.reset(before)


def respell(text: str) -> str:
    """Return a text with its settings as they are written here."""
    spell = _SPELL.get()
    if spell is None:
        return text

    def replace(match: re.Match[str]) -> str:
        before = spell(match["key"], match["entry"] or "")
        return (
            (before.rstrip() if match["ends"] is not None else before) + match["quote"]
            if before
            else match[0]
        )

    return _TWICE.sub(r"\1", _SETTING.sub(replace, text))
