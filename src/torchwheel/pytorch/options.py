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
from torchwheel.pytorch.version import is_dotted
from torchwheel.versions import numbers

_FILE = Path(__file__).with_name("options.toml")

_TREE_KEYS = frozenset({"version", "early", "source"})
_OPTION_KEYS = frozenset(
    {"name", "defaults", "depends", "seen", "absent", "since", "until", "note", "source"}
)


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
        lacked_to: the last minor version known not to have it yet, None if there is none.
        lacked_from: the first minor version known not to have it any more, None if there is none.
        note: what else is known; of which releases it is not known whether they have it, and why.
        source: the document behind ``since``, ``until`` or a changed default; empty if the trees are enough.
    """

    name: str
    defaults: Mapping[str, str]
    depends: str
    seen: tuple[str, ...]
    since: str | None
    until: str | None
    lacked_to: str | None
    lacked_from: str | None
    note: str
    source: str

    @property
    def first(self) -> str:
        """The first minor version that is known to have it."""
        return self._having()[0]

    @property
    def last(self) -> str:
        """The last minor version that is known to have it."""
        return self._having()[-1]

    def presence_in(self, version: str) -> Presence:
        """Whether a release has the option, as far as that is known."""
        minor = numbers(version, 2)
        if numbers(self.first, 2) <= minor <= numbers(self.last, 2):
            return Presence.YES
        is_yet_to_come = self.since is not None and minor < numbers(self.since, 2)
        is_gone = self.until is not None and minor > numbers(self.until, 2)
        if self.lacked_to is not None and minor <= numbers(self.lacked_to, 2):
            is_yet_to_come = True
        if self.lacked_from is not None and minor >= numbers(self.lacked_from, 2):
            is_gone = True
        return Presence.NO if is_yet_to_come or is_gone else Presence.UNKNOWN

    def default_in(self, version: str) -> str | None:
        """The default in a release: the last one known up to it, None if none is."""
        minor = numbers(version, 2)
        known = [default for since, default in self.defaults.items() if numbers(since, 2) <= minor]
        return known[-1] if known else None

    def _having(self) -> list[str]:
        return sorted((text for text in (*self.seen, self.since, self.until) if text), key=numbers)


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
        option = _option(row, trees, entry, errors)
        _check(option, trees, entry, errors)
        if found and option.name <= next(reversed(found)):
            errors.add(f"{entry}: is out of order or there twice", "sort the options by name")
        found[option.name] = option
    errors.raise_if_any()
    return OptionCatalogue(found)


def _trees(rows: list[Mapping[str, Any]], errors: DataErrors) -> Mapping[str, str]:
    """The version of each tree, with the last version that lacks what the tree lacks and a later one has."""
    found = {}
    for row in rows:
        entry = f"tree {row.get('version')!r}"
        errors.unknown_keys(row, _TREE_KEYS, entry)
        read_source(row, entry, errors)
        version = read_number(row, "version", entry, errors)
        if version is not None:
            is_early = errors.field(row, "early", bool, entry, default=False)
            found[version] = _version_before(version) if is_early else version
    return found


def _version_before(version: str) -> str:
    major, minor = numbers(version, 2)
    return f"{major}.{minor - 1}"


def _option(row: Mapping[str, Any], trees: Mapping[str, str], entry: str, errors: DataErrors) -> BuildOption:
    seen = errors.strings(row, "seen", entry)
    absent = errors.strings(row, "absent", entry)
    since = read_number(row, "since", entry, errors)
    until = read_number(row, "until", entry, errors)
    for key, versions in (("seen", seen), ("absent", absent)):
        for version in versions:
            if version not in trees:
                errors.add(f"{entry}: {key!r} names {version!r}, which is no tree of this file")
    having = [numbers(text, 2) for text in (*seen, since, until) if text and is_dotted(text)]
    lacking = sorted(filter(is_dotted, absent), key=numbers)
    earlier = [version for version in lacking if having and numbers(version, 2) < min(having)]
    later = [version for version in lacking if having and numbers(version, 2) > max(having)]
    if having and len(earlier) + len(later) < len(absent):
        errors.add(f"{entry}: 'absent' names a version between those that have it")
    return BuildOption(
        name=errors.field(row, "name", str, entry),
        defaults=errors.field(row, "defaults", dict, entry, default={}),
        depends=errors.field(row, "depends", str, entry, default=""),
        seen=seen,
        since=since,
        until=until,
        lacked_to=trees.get(earlier[-1]) if earlier else None,
        lacked_from=later[0] if later else None,
        note=errors.field(row, "note", str, entry, default=""),
        source=read_source(row, entry, errors) if "source" in row else "",
    )


def _check(option: BuildOption, trees: Mapping[str, str], entry: str, errors: DataErrors) -> None:
    for version, default in option.defaults.items():
        if not is_dotted(version) or not isinstance(default, str):
            errors.add(f"{entry}: 'defaults' has {version!r} = {default!r}", "write it as in \"2.6\" = 'ON'")
    if list(option.defaults) != sorted(filter(is_dotted, option.defaults), key=numbers):
        errors.add(f"{entry}: 'defaults' is out of order", "sort it by version")
    beyond_trees = option.since or option.until or set(option.defaults) - set(trees)
    if beyond_trees and not option.source:
        errors.add(f"{entry}: says more than the trees do, without a source", "give 'source'")
    if not (option.seen or option.since or option.until):
        errors.add(f"{entry}: no release is known to have it", "give 'seen', 'since' or 'until'")
