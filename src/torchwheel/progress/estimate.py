"""How long what is left of a build takes: by what the same files took before, else by files of their kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.progress.record import Record, Step

_TRUSTED_SECONDS = 20.0
"""What was measured counts in full against seconds of this build that are many times as many."""


class Estimate:
    """An estimate of one build.

    Args:
        known: what is known of steps by their outputs.
        outputs: the outputs of all steps of the build's graph.
        up_to_date: those that were made before the build began; some of them may be made again.
    """

    def __init__(
        self, known: Mapping[str, Step], outputs: Collection[str], up_to_date: Collection[str]
    ) -> None:
        self._seconds = {output: step_seconds(output, known) for output in outputs}
        self._new = {output for output in outputs if output not in up_to_date}

    def left(self, record: Record, now: float) -> float | None:
        """Seconds until ninja is done; None before it runs, or where nothing is known of what it makes."""
        made = {step.output: step for step in record.made}
        count = record.total - record.finished
        new = [output for output in self._new if output not in made]
        old = [output for output in self._seconds if output not in made and output not in self._new]
        if not record.total or not (new or old):
            return None
        work = self._mean(new) * min(count, len(new)) + self._mean(old or new) * max(0, count - len(new))
        work *= self._pace(made)
        running = [
            (self._seconds.get(one.output, 0.0) * self._pace(made), now - one.start) for one in record.running
        ]
        work -= sum(min(expected, since) for expected, since in running)
        longest = max((expected - since for expected, since in running), default=0.0)
        return max(0.0, longest, work / max(1, min(record.build.jobs, count)))

    def _mean(self, outputs: Collection[str]) -> float:
        return sum(self._seconds[output] for output in outputs) / max(1, len(outputs))

    def _pace(self, made: Mapping[str, Step]) -> float:
        """How much longer this build takes for its steps than was expected."""
        expected = sum(self._seconds.get(output, step.seconds) for output, step in made.items())
        taken = sum(step.seconds for step in made.values())
        return (taken + _TRUSTED_SECONDS) / (expected + _TRUSTED_SECONDS)


def step_seconds(output: str, known: Mapping[str, Step]) -> float:
    """How long a step takes: as long as it took, else as files of its kind do."""
    if output in known and (cost := known[output].cost) is not None:
        return cost
    return next(seconds for pattern, seconds in _kinds() if pattern.fullmatch(output))


@cache
def _kinds() -> tuple[tuple[re.Pattern[str], float], ...]:
    table = read_toml(Path(__file__).with_name("kinds.toml"))
    return tuple((re.compile(kind["pattern"], re.IGNORECASE), kind["seconds"]) for kind in table["kind"])
