"""Reading the catalogue of known failures and checking every entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torchwheel.diagnosis.model import Entry, Pattern, Phase, frozen, placeholders
from torchwheel.diagnosis.patterns import check_needle, compile_pattern
from torchwheel.errors import Problem

KEYS = (
    "id",
    "title",
    "phase",
    "rank",
    "patterns",
    "context",
    "details",
    "otherwise",
    "means",
    "change",
    "applies",
    "links",
)
"""The keys of an entry, in the order in which they are written."""

_OPTIONAL = frozenset({"context", "details", "otherwise", "applies"})
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_VERSIONS = re.compile(r"(?:>=|<=|<|>|==)\d+(?:\.\d+)*(?:,(?:>=|<=|<|>|==)\d+(?:\.\d+)*)*")
_PLATFORMS = ("linux", "linux-aarch64", "windows", "macos")


class EntryReader:
    """Turns the tables of one file into entries and gathers what is wrong with them."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.problems: list[Problem] = []

    def read(self, tables: Any) -> Iterator[Entry]:
        """The entries that are complete and correct; for the others ``problems`` grows."""
        if not isinstance(tables, list):
            self._complain("", "the file has no [[entry]] tables", "write each entry as an [[entry]] table")
            return
        for number, table in enumerate(tables, 1):
            name = str(table.get("id", f"number {number}"))
            before = len(self.problems)
            self._check_keys(name, table)
            if len(self.problems) > before:
                continue
            entry = self._entry(name, table)
            if len(self.problems) == before:
                yield entry

    def _complain(self, name: str, what: str, remedy: str) -> None:
        where = f"entry {name}: {what}" if name else what
        self.problems.append(Problem("malformed-diagnosis", where, remedy, origin=self.origin))

    def _check_keys(self, name: str, table: Mapping[str, Any]) -> None:
        for key in table.keys() - set(KEYS):
            self._complain(name, f"the key {key!r} is unknown", f"use one of {', '.join(KEYS)}")
        for key in KEYS:
            if key in table and not _TYPES[key](table[key]):
                self._complain(name, f"{key!r} has the wrong form", "compare with its neighbours")
            elif key not in table and key not in _OPTIONAL:
                self._complain(name, f"the key {key!r} is missing", f"add {key!r}")

    def _entry(self, name: str, table: Mapping[str, Any]) -> Entry:
        self._check_values(name, table)
        entry = Entry(
            id=table["id"],
            title=table["title"],
            phase=Phase(table["phase"]),
            rank=table["rank"],
            patterns=tuple(self._patterns(name, table["patterns"])),
            context=tuple(self._regexes(name, table.get("context", []))),
            details=tuple(self._regexes(name, table.get("details", []))),
            otherwise=frozen(table.get("otherwise", {})),
            means=table["means"],
            change=tuple(table["change"]),
            applies=frozen(table.get("applies", {})),
            links=tuple(table["links"]),
        )
        self._check_captures(entry)
        return entry

    def _check_values(self, name: str, table: Mapping[str, Any]) -> None:
        if not _ID.fullmatch(table["id"]):
            self._complain(name, "the id is not in kebab case", "write it like `no-kernel-image`")
        for link in table["links"]:
            if not link.startswith("https://"):
                self._complain(name, f"the link {link!r} is no https address", "give the full address")
        for key, value in table.get("applies", {}).items():
            if not _applies_is_valid(key, value):
                self._complain(
                    name,
                    f"applies.{key} = {value!r} is no limit",
                    f"give pytorch or cuda like '>=2.7,<3', or as platform one of {', '.join(_PLATFORMS)}",
                )

    def _patterns(self, name: str, tables: list[Mapping[str, str]]) -> Iterator[Pattern]:
        for table in tables:
            try:
                check_needle(table["needle"])
                yield Pattern(table["needle"], compile_pattern(table["regex"]))
            except ValueError as error:
                self._complain(name, f"the pattern {table['regex']!r}: {error}", "correct the pattern")

    def _regexes(self, name: str, texts: list[str]) -> Iterator[re.Pattern[str]]:
        for text in texts:
            try:
                yield compile_pattern(text)
            except ValueError as error:
                self._complain(name, f"the pattern {text!r}: {error}", "correct the pattern")

    def _check_captures(self, entry: Entry) -> None:
        """A message may only use what every pattern captures, or what has a text for its absence."""
        used = placeholders(" ".join((entry.title, entry.means, *entry.change)))
        certain = [set(pattern.regex.groupindex) for pattern in entry.patterns]
        known = set.intersection(*certain) | entry.otherwise.keys() if certain else set()
        for name in sorted(used - known):
            self._complain(
                entry.id,
                f"the messages use {{{name}}}, which not every pattern captures",
                f"capture it with (?P<{name}>…) in every pattern, or add otherwise.{name}",
            )


def _applies_is_valid(key: str, value: str) -> bool:
    if key == "platform":
        return value in _PLATFORMS
    return key in ("pytorch", "cuda") and _VERSIONS.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_text(item) for item in value)


def _is_table_of_texts(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(_is_text(item) for item in value.values())


def _are_patterns(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_pattern(item) for item in value)


def _is_pattern(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"needle", "regex"} and _is_table_of_texts(value)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "id": _is_text,
    "title": _is_text,
    "phase": lambda value: value in [phase.value for phase in Phase],
    "rank": lambda value: value in (1, 2, 3) and not isinstance(value, bool),
    "patterns": _are_patterns,
    "context": _are_texts,
    "details": _are_texts,
    "otherwise": _is_table_of_texts,
    "means": _is_text,
    "change": _are_texts,
    "applies": _is_table_of_texts,
    "links": _are_texts,
}
