"""The one error type that reaches a user: what happened, why, and what to do, with the nearest right spelling."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches

_CUTOFF = 0.7
"""Similarity below which a suggestion would mislead more than help."""
_COMPARED = 8
_LONGEST = 100
"""Characters of a name that is compared: comparing takes a time that grows with their square."""
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, with its remedy.

    Attributes:
        id: stable identifier in kebab case, e.g. ``unknown-target``.
        what: what is wrong, one sentence that names the value.
        remedy: what to type or change, concrete enough to act on; lines after the first are commands to paste.
        why: the rule or fact behind it; empty where ``what`` says it all.
        origin: where the value came from (a file, ``-C``, a variable); empty if nowhere in particular.
    """

    id: str
    what: str
    remedy: str
    why: str = ""
    origin: str = ""

    def render(self) -> str:
        """The problem as indented plain text, one fact per line."""
        head = f"{self.what}  [{self.id}]"
        lines = [f"{self.origin}: {head}" if self.origin else head]
        if self.why:
            lines.append(f"    why: {self.why}")
        lines.append("\n         ".join(f"    fix: {self.remedy}".splitlines()))
        return "\n".join(lines)


class TorchwheelError(Exception):
    """Everything that stops torchwheel, all problems at once.

    Raised with one or more problems; ``str()`` of it is the full text a user sees.
    """

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        if not self.problems:
            raise ValueError("an error needs at least one problem")
        super().__init__(self.render())

    def render(self) -> str:
        """All problems, numbered when there is more than one."""
        if len(self.problems) == 1:
            return self.problems[0].render()
        texts = []
        for number, problem in enumerate(self.problems, 1):
            body = problem.render().replace("\n", "\n   ")
            texts.append(f"{number}. {body}")
        return f"{len(self.problems)} problems:\n" + "\n".join(texts)


def refusal(id: str, what: str, remedy: str, why: str = "", origin: str = "") -> TorchwheelError:
    """The error of one problem; see :class:`Problem`."""
    return TorchwheelError(Problem(id, what, remedy, why, origin))


def unreadable(error: OSError, origin: str) -> TorchwheelError:
    """The error that a file cannot be read."""
    is_no_file = error.errno == errno.EINVAL  # as ``_files.open_file`` says of pipes and devices
    return refusal(
        id="unreadable-file",
        what=f"cannot be read: {error.strerror}",
        remedy="write what it holds into a file, and name that"
        if is_no_file
        else "check that the file exists and that you may read it",
        origin=origin,
    )


@contextmanager
def collected(problems: list[Problem]) -> Iterator[None]:
    """End the block at an error, whose problems join the others, and go on behind it."""
    try:
        yield
    except TorchwheelError as error:
        problems += error.problems


def stop_on(problems: Iterable[Problem]) -> None:
    """Raise all of the problems at once, each once, if there are any."""
    if found := tuple(dict.fromkeys(problems)):
        raise TorchwheelError(found)


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The one candidate most like ``name``, or None when none is like it.

    Case, underscores and hyphens do not count. One with the same numbers goes before one with others, and
    one with the same digits next: few people mistype a number alone, and who does swaps two digits.
    Give siblings only: names from elsewhere that share a long prefix all look alike.
    """
    if len(name) > _LONGEST:
        return None
    folded = {_fold(candidate): candidate for candidate in sorted(candidates, reverse=True)}
    close = get_close_matches(_fold(name), folded, n=_COMPARED, cutoff=_CUTOFF)
    numbers = _DIGITS.findall(name)
    digits = sorted("".join(numbers))
    # The most alike come first, and stay so among those with the same numbers.
    best = sorted(
        close,
        key=lambda text: (_DIGITS.findall(text) != numbers, sorted("".join(_DIGITS.findall(text))) != digits),
    )
    return folded[best[0]] if best else None


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-")
