"""The CMake options that say what of PyTorch is built: `options.toml`.

A tree at hand says for itself which options it has; this is for what is not at hand, and for names that a
newer or an older release has and this one has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.versions import numbers

_FILE = Path(__file__).with_name("options.toml")


@dataclass(frozen=True)
class BuildOption:
    """One CMake option.

    Attributes:
        name: ``USE_NCCL``.
        seen: minor versions whose trees were read and have it.
        since: the first minor version with it, None if not known.
        until: the last minor version with it, None if not known or if it still exists.
        lacked_to: the last minor version known not to have it yet, None if there is none.
        lacked_from: the first minor version known not to have it any more, None if there is none.
        instead: what serves those who ask for it where it is gone; empty where nothing is known.
    """

    name: str
    seen: tuple[str, ...]
    since: str | None
    until: str | None
    lacked_to: str | None
    lacked_from: str | None
    instead: str = ""

    @property
    def first(self) -> str:
        """The first minor version that is known to have it."""
        return self._having()[0]

    @property
    def last(self) -> str:
        """The last minor version that is known to have it."""
        return self._having()[-1]

    def is_lacked_by(self, version: str) -> bool:
        """Whether a release is known not to have the option; of one between two trees nothing may be known."""
        minor = numbers(version, 2)
        is_yet_to_come = (self.since is not None and minor < numbers(self.since, 2)) or (
            self.lacked_to is not None and minor <= numbers(self.lacked_to, 2)
        )
        is_gone = (self.until is not None and minor > numbers(self.until, 2)) or (
            self.lacked_from is not None and minor >= numbers(self.lacked_from, 2)
        )
        return is_yet_to_come or is_gone

    def _having(self) -> list[str]:
        return sorted((text for text in (*self.seen, self.since, self.until) if text), key=numbers)


@cache
def options() -> Mapping[str, BuildOption]:
    """The options that torchwheel ships knowledge of, by name in alphabetical order."""
    data = read_toml(_FILE)
    trees = {row["version"]: row.get("early", False) for row in data["tree"]}
    return {row["name"]: _option(row, trees) for row in data["option"]}


def _option(row: Mapping[str, Any], is_early: Mapping[str, bool]) -> BuildOption:
    seen, since, until = tuple(row.get("seen", ())), row.get("since"), row.get("until")
    having = [numbers(text) for text in (*seen, since, until) if text]
    lacking = sorted(row.get("absent", ()), key=numbers)
    earlier = [version for version in lacking if numbers(version) < min(having)]
    later = [version for version in lacking if numbers(version) > max(having)]
    lacked_to = earlier[-1] if earlier else None
    if lacked_to is not None and is_early[lacked_to]:
        # The tree is older than that version's branch, so what it lacks may have come with that version.
        major, minor = numbers(lacked_to, 2)
        lacked_to = f"{major}.{minor - 1}"
    lacked_from, instead = later[0] if later else None, row.get("instead", "")
    return BuildOption(row["name"], seen, since, until, lacked_to, lacked_from, instead)
