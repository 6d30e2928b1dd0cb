"""The catalogue of known failures: ``catalogue/*.toml`` beside this module, one file per subject."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.diagnosis.catalogue_reader import EntryReader
from torchwheel.diagnosis.model import Entry
from torchwheel.errors import Problem, TorchwheelError


@dataclass(frozen=True)
class Catalogue:
    """All known failures, in the order of their files."""

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def _by_id(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self.entries}

    def find(self, id: str) -> Entry | None:
        """The entry of that id."""
        return self._by_id.get(id)

    def nearest(self, id: str) -> str | None:
        """The id that is spelled most like ``id``, if one is close."""

        return next(iter(get_close_matches(id, self._by_id, n=1, cutoff=0.6)), None)


def load_catalogue(folder: Path) -> Catalogue:
    """Read and check every ``*.toml`` file of ``folder``.

    Raises:
        TorchwheelError: entries are malformed or an id occurs twice; all problems of all files at once.
    """
    entries: list[Entry] = []
    problems: list[Problem] = []
    origins: dict[str, str] = {}
    for path in sorted(folder.glob("*.toml")):
        reader = EntryReader(str(path))
        for entry in reader.read(read_toml(path).get("entry")):
            if entry.id in origins:
                problems.append(_twice(entry.id, str(path), origins[entry.id]))
            origins[entry.id] = str(path)
            entries.append(entry)
        problems += reader.problems
    if problems:
        raise TorchwheelError(problems)
    return Catalogue(tuple(entries))


@cache
def catalogue() -> Catalogue:
    """The catalogue that ships with torchwheel."""
    return load_catalogue(Path(__file__).with_name("catalogue"))


def _twice(id: str, origin: str, first: str) -> Problem:
    return Problem(
        id="malformed-diagnosis",
        what=f"the id {id!r} occurs twice; it is also in {first}",
        remedy="give one of the two another id",
        origin=origin,
    )
