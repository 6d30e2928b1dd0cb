"""The CMake options that say what of PyTorch is built: `options.toml`, checked on loading.

A tree at hand says for itself which options it has; this is for what is not at hand, and for names that a
newer or an older release has and this one has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.hardware._data_file import DataErrors
from torchwheel.pytorch._data_fields import read_number, read_source
from torchwheel.pytorch.version import dotted_number, is_dotted

_FILE = Path(__file__).with_name("options.toml")

_TREE_KEYS = frozenset({"version", "source"})
_OPTION_KEYS = frozenset({"name", "defaults", "depends", "seen", "since", "until", "note", "source"})


class Presence(Enum):
    """Whether a release has an option."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class BuildOption:
    """One CMake option.

    Attributes:
        name: ``USE_NCCL``.
        defaults: minor version to the default that it has from that one on, as in CMake; empty if not known.
        depends: the condition without which it is off, as in CMake; empty if there is none.
        seen: minor versions whose trees were read and have it.
        since: the first minor version with it, None if not known.
        until: the last minor version with it, None if not known or if it still exists.
        source: the document behind ``since``, ``until`` or a changed default; empty if the trees are enough.
    """

    name: str
    defaults: Mapping[str, str]
    depends: str
    seen: tuple[str, ...]
    since: str | None
    until: str | None
    source: str

    def presence_in(self, version: str) -> Presence:
        """Whether a release has the option, as far as that is known."""
        minor = dotted_number(version)
        if self.since is not None and minor < dotted_number(self.since):
            return Presence.NO
        if self.until is not None and minor > dotted_number(self.until):
            return Presence.NO
        evidence = [dotted_number(text) for text in (*self.seen, self.since, self.until) if text]
        return Presence.YES if min(evidence) <= minor <= max(evidence) else Presence.UNKNOWN

    def default_in(self, version: str) -> str | None:
        """The default in a release: the last one known up to it, None if none is."""
        minor = dotted_number(version)
        known = [default for since, default in self.defaults.items() if dotted_number(since) <= minor]
        return known[-1] if known else None


@dataclass(frozen=True)
class OptionCatalogue:
    """The known options by name, in alphabetical order."""

    by_name: Mapping[str, BuildOption]

    def find(self, name: str) -> BuildOption | None:
        """The option of that exact name, None if it is not known."""
        return self.by_name.get(name)

    def nearest(self, name: str) -> str | None:
        """The known name most like one that is not known, None if there is none like it."""
        close = get_close_matches(name.upper(), self.by_name, n=1, cutoff=0.7)
        return close[0] if close else None

    def __iter__(self) -> Iterator[BuildOption]:
        return iter(self.by_name.values())


@cache
def options() -> OptionCatalogue:
    """The options that torchwheel ships knowledge of."""
    return load_options(_FILE)


def load_options(path: Path) -> OptionCatalogue:
    """Read and check a file like `options.toml`.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong; all of them are named.
    """
    data = read_toml(path)
    errors = DataErrors(str(path))
    trees = _trees(data.get("tree", []), errors)
    found: dict[str, BuildOption] = {}
    for row in data.get("option", []):
        entry = f"option {row.get('name')!r}"
        errors.unknown_keys(row, _OPTION_KEYS, entry)
        option = _option(row, entry, errors)
        _check(option, trees, entry, errors)
        if found and option.name <= next(reversed(found)):
            errors.add(f"{entry}: is out of order or there twice", "sort the options by name")
        found[option.name] = option
    errors.raise_if_any()
    return OptionCatalogue(found)


def _trees(rows: list[Mapping[str, Any]], errors: DataErrors) -> frozenset[str]:
    found = set()
    for row in rows:
        entry = f"tree {row.get('version')!r}"
        errors.unknown_keys(row, _TREE_KEYS, entry)
        read_source(row, entry, errors)
        found.add(errors.field(row, "version", str, entry))
    return frozenset(found)


def _option(row: Mapping[str, Any], entry: str, errors: DataErrors) -> BuildOption:
    return BuildOption(
        name=errors.field(row, "name", str, entry),
        defaults=errors.field(row, "defaults", dict, entry, default={}),
        depends=errors.field(row, "depends", str, entry, default=""),
        seen=errors.strings(row, "seen", entry),
        since=read_number(row, "since", entry, errors),
        until=read_number(row, "until", entry, errors),
        source=read_source(row, entry, errors) if "source" in row else "",
    )


def _check(option: BuildOption, trees: frozenset[str], entry: str, errors: DataErrors) -> None:
    for version in option.seen:
        if version not in trees:
            errors.add(f"{entry}: 'seen' names {version!r}, which is no tree of this file")
    for version, default in option.defaults.items():
        if not is_dotted(version) or not isinstance(default, str):
            errors.add(f"{entry}: 'defaults' has {version!r} = {default!r}", "write it as in \"2.6\" = 'ON'")
    if list(option.defaults) != sorted(filter(is_dotted, option.defaults), key=dotted_number):
        errors.add(f"{entry}: 'defaults' is out of order", "sort it by version")
    beyond_trees = option.since or option.until or set(option.defaults) - trees
    if beyond_trees and not option.source:
        errors.add(f"{entry}: says more than the trees do, without a source", "give 'source'")
    if not (option.seen or option.since or option.until):
        errors.add(f"{entry}: no release is known to have it", "give 'seen', 'since' or 'until'")
