"""The texts of every message by its id, from ``messages.toml`` in each room, and how a remedy writes a setting.

An entry of a ``messages.toml`` has the keys

    what     the problem, with ``{placeholders}`` for the raise site's values
    why      the rule or fact behind it, unless it is obvious
    fix      the remedy; a list is printed with numbers
    more     additional text of ``torchwheel explain``
    example  values of the placeholders for ``explain``, which has no build; ``origin`` may be among them

and a table for each variant: other texts for the same fault, raised as ``id/variant``. A variant inherits the
texts of its entry, and may be in another room; the entry of a rule of preflight is in ``preflight/rules``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_ROOT = Path(__file__).parent.parent
FILE = "messages.toml"
_RULES = _ROOT / "preflight" / "rules"
_EXIT = "exit-status"
_TEXTS = {"what", "why", "fix", "more", "example", _EXIT}
_RULE_STATUS = 2


@dataclass(frozen=True)
class Message:
    key: str
    what: str
    why: str
    fix: tuple[str, ...]
    more: str
    example: Mapping[str, str]
    status: int

    @property
    def id(self) -> str:
        return self.key.partition("/")[0]

    def texts(self, values: Mapping[str, object]) -> list[str]:
        """``what``, ``why`` and each fix with the values in them; KeyError where one is missing."""
        return [text.format_map(values) for text in (self.what, self.why, *self.fix)]

    def fill(self, values: Mapping[str, object]) -> tuple[str, str, str]:
        what, why, *fixes = self.texts(values)
        return what, why, number_fixes(fixes)


def number_fixes(fixes: Sequence[str]) -> str:
    fixes = [fix for fix in fixes if fix]
    if len(fixes) <= 1:
        return "".join(fixes)
    return "\n".join(f"{number}. {text}" for number, text in enumerate(fixes, 1))


@cache
def read_messages() -> Mapping[str, Message]:
    rules = (row for file in sorted(_RULES.glob("*.toml")) for row in read_plain_toml(file)["rule"])
    entries = [(row["id"], row, _RULE_STATUS) for row in rules if "what" in row]
    for file in (_ROOT / FILE, *sorted(_ROOT.glob(f"*/{FILE}"))):
        read = read_plain_toml(file)
        status = read.pop(_EXIT)
        entries += [(id, entry, status) for id, entry in read.items()]
    bases = {id: entry for id, entry, _ in entries if "what" in entry}
    return {
        key: _make_message(key, texts, status)
        for id, entry, status in entries
        for key, texts in _expand_variants(id, entry, bases[id])
    }


def read_plain_toml(file: Path) -> dict[str, Any]:
    """Read a TOML file where :mod:`torchwheel.system.toml` cannot be imported, because it imports errors."""
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _expand_variants(
    id: str, entry: Mapping[str, Any], base: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    common = {key: base[key] for key in _TEXTS & base.keys()}
    if entry is base:
        yield id, common
    for name, texts in entry.items():
        if isinstance(texts, dict) and name != "example":
            example = {**base.get("example", {}), **texts.get("example", {})}
            yield f"{id}/{name}", {**common, **texts, "example": example}


def _make_message(key: str, texts: Mapping[str, Any], status: int) -> Message:
    fix = texts.get("fix", "")
    return Message(
        key=key,
        what=texts["what"],
        why=texts.get("why", ""),
        fix=tuple(filter(None, [fix] if isinstance(fix, str) else fix)),
        more=texts.get("more", ""),
        example=texts.get("example", {}),
        status=texts.get(_EXIT, status),
    )


Spell = Callable[[str, str], str]
"""What stands before a setting's value, from its key and the entry of a table; empty to leave ``-C`` there."""

_SPELL: ContextVar[Spell | None] = ContextVar("_SPELL", default=None)
_SETTING = re.compile(
    r"-C (?P<quote>['\"]?)(?P<key>[a-z-]+)(?:\.(?P<entry>\w+))?=(?P<ends>(?=[,;:.)`]*(?:\s|$)))?"
)
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
    spell = _SPELL.get()
    if spell is None:
        return text

    def replace(match: re.Match[str]) -> str:
        if not (before := spell(match["key"], match["entry"] or "")):
            return match[0]
        return (before if match["ends"] is None else before.rstrip()) + match["quote"]

    return _TWICE.sub(r"\1", _SETTING.sub(replace, text))
