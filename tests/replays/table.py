"""docs/replays.md, made of the attempts and of what torchwheel says to them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from replays.replay import Attempt, attempts
from replays.telling import telling

_HEAD = """\
# The failed builds, replayed

Attempts to build PyTorch that people wrote down, most of which failed, and what torchwheel says to each. Every one is
kept in `tests/replays`: the machine as a file that `torchwheel doctor --host` reads, the source tree, the options as
they were typed (each `-D` as `-C define.`, each variable as a variable) and an excerpt of the log's shape. What is
added is the target, which torchwheel wants named. A test compares all that torchwheel says with these records, and this
page is made from them: `PYTHONPATH=tests:tests/support python -m replays.table > docs/replays.md`.

*When* is the earliest moment:

- `plan`: planning, which takes a quarter of a second and comes before every build. An error stops the build there.
- `doctor`: `torchwheel doctor`, seconds and no GPU. What is quick of it comes before every build too.
- `diagnose`: from the log, at the end of the failed build or later.

The table shows what answers an attempt; doctor's report has more.

"""
_COLUMNS = ("Seed", "Attempt", "How it ended", "Time lost", "When", "What torchwheel says")
_SPECIAL = re.compile(r"([\\|\[\]<*_`])")


def page() -> str:
    """The whole page."""
    rows = [_COLUMNS, ("---",) * len(_COLUMNS)]
    rows += (row for attempt in attempts().values() for row in _rows(attempt))
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows(attempt: Attempt) -> Iterator[tuple[str, ...]]:
    """One row for each answer; the first tells the attempt."""
    about: tuple[str, ...] = (attempt.seed, _plain(attempt.title), _plain(attempt.outcome), attempt.lost)
    for stage, grade, id, sentence in _answers(attempt):
        yield (*about, f"`{stage}`", f"{grade}: {_plain(sentence)} (`{id}`)")
        about = ("",) * len(about)


def _answers(attempt: Attempt) -> Iterator[tuple[str, str, str, str]]:
    """Moment, grade, id and sentence of what answers an attempt, in the order of the file."""
    told = telling(attempt.name)
    said = {one.id: one for one in told.said}
    for id in attempt.answers:
        if id in said:
            yield said[id].stage, said[id].grade, id, told.sentences[id]
        else:
            yield "doctor", "ok", id, "this check passes"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", text)


if __name__ == "__main__":
    sys.stdout.write(page())
