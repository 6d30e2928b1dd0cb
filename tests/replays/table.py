"""docs/replays.md, made of the attempts and of what torchwheel says to them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from replays.replay import Attempt, attempts
from replays.telling import telling

_HEAD = """\
# The failed builds, replayed

Twenty builds of PyTorch that people wrote down, most of which failed, and what torchwheel says to each. Every one is
kept in `tests/replays`: the machine as a file that `torchwheel doctor --host` reads, the source tree, the options as
they were typed (each `-D` as a `-C define.`, each variable as a variable) and an excerpt of the log's shape. To them
comes only the target, which torchwheel wants named. A test holds all that torchwheel says to these data, and this page
is made of them: `PYTHONPATH=tests python -m replays.table > docs/replays.md`.

*When* is the earliest moment:

- `plan`: planning, which takes a quarter of a second and comes before every build. An error stops it there.
- `doctor`: `torchwheel doctor`, seconds and no GPU. What is quick of it comes before every build too.
- `diagnose`: from the log, at the end of the failed build or later.

The table shows what answers the attempt; doctor's report has more.

"""
_COLUMNS = ("Seed", "Attempt", "How it ended", "Time lost", "When", "What torchwheel says")
_SPECIAL = re.compile(r"([\\|\[\]<*_`])")


def page() -> str:
    """The whole page."""
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *(_row(attempt) for attempt in attempts().values())]
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(attempt: Attempt) -> tuple[str, ...]:
    answers = list(_answers(attempt))
    return (
        attempt.seed or "-",
        _plain(attempt.title),
        _plain(attempt.outcome),
        attempt.lost,
        "<br>".join(f"`{stage}`" for stage, _, _, _ in answers),
        "<br>".join(f"{grade}: {_plain(sentence)} (`{id}`)" for _, grade, id, sentence in answers),
    )


def _answers(attempt: Attempt) -> Iterator[tuple[str, str, str, str]]:
    """Moment, grade, id and sentence of what answers an attempt, in the order of the file."""
    told = telling(attempt.name)
    said = {one.id: one for one in told.said}
    for id in attempt.answers:
        if id in said:
            yield said[id].stage, said[id].grade, id, told.sentences[id]
        else:
            yield "doctor", "ok", id, told.passed[id]


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", text)


if __name__ == "__main__":
    sys.stdout.write(page())
