"""Estimate the remaining time of a build from earlier durations of the same files, else from files of their kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from torchwheel.progress.build_record import BuildRecord, TimedStep
from torchwheel.system.toml import read_toml

_TRUSTED_SECONDS = 20.0
"""Weight of the expectation against this build's measurements, in seconds."""
_TRUSTED_ANSWERS = 10
"""After so many cache lookups, half of their hit rate is assumed for the rest."""
_MEGABYTE = 1e6


@dataclass(frozen=True)
class Kind:
    """A kind of steps, for steps that were never measured.

    Attributes:
        pattern: matches their sources with ``.o`` appended, after ``generated/`` if the build makes them; else outputs.
        rate: seconds for a megabyte of source; None if the size is irrelevant.
    """

    pattern: re.Pattern[str]
    seconds: float
    rate: float | None
    most: float


@dataclass(frozen=True)
class Expected:
    """The expected seconds of a step, and its kind; None for a measured step."""

    seconds: float
    kind: Kind | None


@dataclass
class _Pace:
    """The measured time of a kind's steps so far, compared with the expected time."""

    all: float = 0.0
    expected: float = 0.0
    taken: float = 0.0
    answers: int = 0
    hits: int = 0
    hit_seconds: float = 0.0
    known: bool = field(kw_only=True)

    def known_share(self) -> float:
        """The share of the kind that is known, because a tree's first files are not typical."""
        return 1.0 if self.known else self.expected / self.all if self.all else 0.0

    def machine_factor(self, before: float = 1.0) -> float:
        """The ratio of actual to expected time: ``before`` for the unknown share, measured for the rest."""
        return (1 - self.known_share()) * before + (self.taken / self.all if self.all else 0.0)

    def expected_seconds(self, seconds: float, machine: float) -> float:
        factor = self.machine_factor(machine)
        if self.known:
            factor = (self.taken + _TRUSTED_SECONDS) / (self.expected + _TRUSTED_SECONDS)
        hits = self.hits / (self.answers + _TRUSTED_ANSWERS)
        return (1 - hits) * factor * seconds + hits * self.hit_seconds / max(1, self.hits)


class Estimate:
    """An estimate of one build; of the outputs that are up to date, some may be built again."""

    def __init__(
        self,
        known: Mapping[str, TimedStep],
        sources: Mapping[str, str | None],
        up_to_date: Collection[str],
        folders: tuple[Path, Path],
    ) -> None:
        self._known, self._sources, self._folders = known, sources, folders
        self._new = {output for output in sources if output not in up_to_date}
        self._expected: dict[str, Expected] = {}
        self._measured: dict[Kind | None, _Pace] = {}
        self._unsized = set(sources)

    def estimate_left(self, record: BuildRecord, now: float) -> tuple[float | None, bool]:
        """Estimate the seconds until ninja finishes; None before it runs, or if its steps are unknown.

        It is also said whether that is a guess, based on kinds of files of which this build has finished too few.
        """
        made = {step.output: step for step in record.made}
        count = record.total - record.finished
        new = [output for output in self._new if output not in made]
        old = [output for output in self._sources if output not in made and output not in self._new]
        if not record.total or not (new or old):
            return None, False
        self._expect_steps()
        paces = self._compute_paces(made.values())
        total = _Pace(known=False)
        for pace in paces.values():
            total.all += pace.all
            total.expected += pace.expected
            total.taken += pace.taken
        machine = total.machine_factor()
        work = doubt = 0.0
        # It is unknown which of the existing outputs are built again.
        for outputs, times in ((new, min(count, len(new))), (old or new, max(0, count - len(new)))):
            for output in outputs:
                one = self._expected[output]
                seconds = paces[one.kind].expected_seconds(one.seconds, machine) * times / len(outputs)
                work += seconds
                doubt += seconds * (1 - paces[one.kind].known_share())
        is_guess = doubt > work / 2
        running = [
            (paces[its.kind].expected_seconds(its.seconds, machine), now - step.start)
            for step in record.running
            if (its := self._expected.get(step.output))
        ]
        work -= sum(min(seconds, since) for seconds, since in running)
        longest = max((seconds - since for seconds, since in running), default=0.0)
        # More jobs do not shorten the longest running step.
        return max(0.0, longest, work / max(1, min(record.build.jobs, count))), is_guess

    def _expect_steps(self) -> None:
        """Set the expectation of each step; one whose source does not exist yet is set again the next time."""
        for output in sorted(self._unsized):
            step = self._known.get(output)
            guessed, sized = guess_step(output, self._sources[output], self._folders)
            if step is not None and step.cost is not None:
                self._expected[output] = Expected(step.cost, None)
                # Its earlier duration helps to estimate others of its kind.
                pace = self._measured.setdefault(guessed.kind, _Pace(known=False))
                pace.all += guessed.seconds
                pace.expected += guessed.seconds
                pace.taken += step.cost
            else:
                self._expected[output] = guessed
                if not sized:
                    continue
            self._unsized.discard(output)

    def _compute_paces(self, made: Iterable[TimedStep]) -> dict[Kind | None, _Pace]:
        # Copies, because the steps of this build are added up anew each time.
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


def guess_step(output: str, source: str | None, folders: tuple[Path, Path]) -> tuple[Expected, bool]:
    """Estimate a step from its kind and the size of its source; also return whether that is final."""
    size, text = None, output
    if source is not None:
        text = f"{source}.o"
        path, size = _find_source(source, folders)
        if path is None or folders[1] in path.parents:
            text = f"generated/{text}"
    kind = kind_of(text)
    settled = source is None or size is not None
    if size is None or kind.rate is None:
        return Expected(kind.seconds, kind), settled
    return Expected(min(size / _MEGABYTE * kind.rate, kind.most), kind), settled


def _find_source(source: str, folders: tuple[Path, Path]) -> tuple[Path | None, int | None]:
    for path in (folder / source for folder in folders):
        with suppress(OSError):
            return path, path.stat().st_size
    return None, None


def kind_of(text: str) -> Kind:
    return next(kind for kind in _read_kinds() if kind.pattern.fullmatch(text))


@cache
def _read_kinds() -> tuple[Kind, ...]:
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
