"""A build's progress in words."""

from __future__ import annotations

from collections.abc import Iterator

from torchwheel.progress.record import Record, Running, Step
from torchwheel.terminal import duration, file_size, rough

_SECONDS_IN_MINUTE = 60


def facts_of(record: Record) -> Iterator[str]:
    """What is worth knowing beside the count of steps: time left, memory, answers of the compiler cache."""
    if record.left is not None and record.finished < record.total:
        left = (
            f"{rough(record.left)} left, a guess"
            if record.guess
            else f"{duration(record.left, coarse=True)} left"
        )
        yield f"about {left}"
    if record.memory:
        yield f"{file_size(record.memory)} of memory"
    if used := cache_use(record):
        yield f"{used} from the compiler cache"


def cache_use(record: Record) -> str:
    """How many compilations of this build a compiler cache answered, ``3 of 7``; empty where that is not known."""
    hits = [step.hit for step in record.made if step.hit is not None]
    return f"{sum(hits):,} of {len(hits):,}" if hits else ""


def percent(record: Record) -> int:
    """Whole per cent of ninja's steps that ended; 100 only when all have."""
    return 100 * record.finished // record.total if record.total else 0


def line(record: Record, now: float) -> str:
    """The progress in one line, with what has been running for long."""
    text = f"{record.finished:,} of {record.total:,} steps ({percent(record)} %)"
    text = ", ".join([text, *facts_of(record)])
    oldest = min(record.running, key=lambda one: one.start, default=None)
    if oldest is not None and now - oldest.start >= _SECONDS_IN_MINUTE:
        text += f"; {name(oldest)} since {duration(now - oldest.start)}"
    return text


def name(step: Step | Running) -> str:
    """What is made, as one knows it: the source, else the output."""
    return step.source or step.output
