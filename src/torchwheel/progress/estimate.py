"""How long what is left of a build takes: by what the same files took before, else by files of their kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.progress.record import Record, Step

_TRUSTED_SECONDS = 20.0
"""What was measured counts in full against seconds of this build that are many times as many."""
_TRUSTED_ANSWERS = 10
"""After so many answers of a compiler cache, half of their share of hits is expected of the rest."""
_MEGABYTE = 1e6


@dataclass(frozen=True)
class Kind:
    """Steps of which nothing but their kind is known.

    Attributes:
        pattern: what their sources match, with ``.o`` behind them, else their outputs; a source that is made by the
            build has ``generated/`` before it.
        seconds: what a step takes of a processor, where the size of its source is not known or says nothing.
        rate: what a megabyte of source takes; None where the size says nothing.
        most: what a step takes at most, by its size.
    """

    pattern: re.Pattern[str]
    seconds: float
    rate: float | None
    most: float


@dataclass(frozen=True)
class Expected:
    """What a step is expected to take: its seconds, and its kind; None for one that was measured."""

    seconds: float
    kind: Kind | None


@dataclass(frozen=True)
class Left:
    """What is left of a build.

    Attributes:
        seconds: until ninja is done.
        guess: whether most of it rests on kinds of files, of which this build has not made enough to know them.
    """

    seconds: float
    guess: bool


@dataclass
class _Pace:
    """What a kind's steps took so far, against what was expected of them."""

    all: float = 0.0
    expected: float = 0.0
    taken: float = 0.0
    answers: int = 0
    hits: int = 0
    hit_seconds: float = 0.0
    known: bool = field(kw_only=True)

    def share(self) -> float:
        """How much of what is said of the rest is known: the first files of a tree are not like its others."""
        return 1.0 if self.known else self.expected / self.all if self.all else 0.0

    def machine(self, before: float = 1.0) -> float:
        """How many times as long steps take as expected: as ``before``, but for the share that was seen."""
        return (1 - self.share()) * before + (self.taken / self.all if self.all else 0.0)

    def of(self, seconds: float, machine: float) -> float:
        """What a step takes that seconds are expected of, on a machine that is slower than expected by a factor."""
        factor = self.machine(machine)
        if self.known:
            factor = (self.taken + _TRUSTED_SECONDS) / (self.expected + _TRUSTED_SECONDS)
        hits = self.hits / (self.answers + _TRUSTED_ANSWERS)
        return (1 - hits) * factor * seconds + hits * self.hit_seconds / max(1, self.hits)


class Estimate:
    """An estimate of one build.

    Args:
        known: what is known of steps by their outputs.
        sources: the outputs of all steps of the build's graph, with the source that each compiles.
        up_to_date: outputs that were made before the build began; some of them may be made again.
        folders: what sources are relative to: that of the tree, and that which is built in.
    """

    def __init__(
        self,
        known: Mapping[str, Step],
        sources: Mapping[str, str | None],
        up_to_date: Collection[str],
        folders: tuple[Path, Path],
    ) -> None:
        self._known, self._sources, self._folders = known, sources, folders
        self._new = {output for output in sources if output not in up_to_date}
        self._expected: dict[str, Expected] = {}
        self._measured: dict[Kind | None, _Pace] = {}
        self._unsized = set(sources)

    def left(self, record: Record, now: float) -> Left | None:
        """What is left until ninja is done; None before it runs, or where nothing is known of what it makes."""
        made = {step.output: step for step in record.made}
        count = record.total - record.finished
        new = [output for output in self._new if output not in made]
        old = [output for output in self._sources if output not in made and output not in self._new]
        if not record.total or not (new or old):
            return None
        self._look()
        paces = self._paces(made.values())
        total = _Pace(known=False)
        for pace in paces.values():
            total.all += pace.all
            total.expected += pace.expected
            total.taken += pace.taken
        machine = total.machine()
        work = doubt = 0.0
        # Which of those that were made before are made again, nobody knows.
        for outputs, times in ((new, min(count, len(new))), (old or new, max(0, count - len(new)))):
            for output in outputs:
                one = self._expected[output]
                seconds = paces[one.kind].of(one.seconds, machine) * times / len(outputs)
                work += seconds
                doubt += seconds * (1 - paces[one.kind].share())
        guess = doubt > work / 2
        running = [
            (paces[its.kind].of(its.seconds, machine), now - step.start)
            for step in record.running
            if (its := self._expected.get(step.output))
        ]
        work -= sum(min(seconds, since) for seconds, since in running)
        longest = max((seconds - since for seconds, since in running), default=0.0)
        return Left(max(0.0, longest, work / max(1, min(record.build.jobs, count))), guess)

    def _look(self) -> None:
        """Expect something of each step; of one whose source is not there yet, again the next time."""
        for output in sorted(self._unsized):
            step = self._known.get(output)
            guessed, sized = guess(output, self._sources[output], self._folders)
            if step is not None and step.cost is not None:
                self._expected[output] = Expected(step.cost, None)
                # What it took before tells of the others of its kind.
                pace = self._measured.setdefault(guessed.kind, _Pace(known=False))
                pace.all += guessed.seconds
                pace.expected += guessed.seconds
                pace.taken += step.cost
            else:
                self._expected[output] = guessed
                if not sized:
                    continue
            self._unsized.discard(output)

    def _paces(self, made: Iterable[Step]) -> dict[Kind | None, _Pace]:
        paces = {kind: replace(pace) for kind, pace in self._measured.items()}
        for one in self._expected.values():
            paces.setdefault(one.kind, _Pace(known=one.kind is None)).all += one.seconds
        for step in made:
            if (expected := self._expected.get(step.output)) is None:
                continue
            pace = paces[expected.kind]
            pace.answers += step.hit is not None
            if step.hit:
                pace.hits += 1
                pace.hit_seconds += step.seconds
            else:
                pace.expected += expected.seconds
                pace.taken += step.seconds
        return paces


def guess(output: str, source: str | None, folders: tuple[Path, Path]) -> tuple[Expected, bool]:
    """What a step is expected to take by its kind and the size of its source; and whether that is settled.

    Args:
        source: what it compiles, relative to one of the folders; None for what compiles nothing.
        folders: of the tree, and that which is built in.
    """
    size, text = None, output
    if source is not None:
        text = f"{source}.o"
        path, size = _file(source, folders)
        if path is None or folders[1] in path.parents:
            text = f"generated/{text}"
    kind = kind_of(text)
    settled = source is None or size is not None
    if size is None or kind.rate is None:
        return Expected(kind.seconds, kind), settled
    return Expected(min(size / _MEGABYTE * kind.rate, kind.most), kind), settled


def _file(source: str, folders: tuple[Path, Path]) -> tuple[Path | None, int | None]:
    """Where a source lies, and its size; None for both of one that is not there."""
    for path in (folder / source for folder in folders):
        with suppress(OSError):
            return path, path.stat().st_size
    return None, None


def kind_of(text: str) -> Kind:
    """The first kind whose pattern matches."""
    return next(kind for kind in _kinds() if kind.pattern.fullmatch(text))


@cache
def _kinds() -> tuple[Kind, ...]:
    table = read_toml(Path(__file__).with_name("kinds.toml"))
    return tuple(
        Kind(
            re.compile(kind["pattern"], re.IGNORECASE),
            kind["seconds"],
            kind.get("seconds-per-megabyte"),
            kind.get("most", float("inf")),
        )
        for kind in table["kind"]
    )
