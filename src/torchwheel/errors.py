"""The one error type that reaches a user: what happened, why, and what to do, with the nearest right spelling."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches

from torchwheel.masking import mask
from torchwheel.terminal import wrap

_CUTOFF = 0.7
"""Similarity below which a suggestion would mislead more than help."""
_COMPARED = 8
_LONGEST = 100
"""Characters of a name that is compared: comparing takes a time that grows with their square."""
_DIGITS = re.compile(r"\d+")
_REPEATED = re.compile(r"(.)\1+")
_NUMBERED = re.compile(r"\d{1,3}\. ")
_NO_BREAK = "\0"
_INDENT = "    "
_BELOW = len("why: ")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, with its remedy; secrets in it are masked.

    Attributes:
        id: stable identifier in kebab case, e.g. ``unknown-target``.
        what: what is wrong, one sentence that names the value.
        remedy: what to type or change, concrete enough to act on; lines after the first are commands to paste, or
            further remedies with their numbers (:func:`numbered`).
        why: the rule or fact behind it; empty where ``what`` says it all. Lines after the first are quotations.
        origin: where the value came from (a file, ``-C``, a variable); empty if nowhere in particular.
    """

    id: str
    what: str
    remedy: str
    why: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        for name in ("what", "remedy", "why", "origin"):
            object.__setattr__(self, name, mask(getattr(self, name)))

    def render(self) -> str:
        """Return the problem as indented plain text, one fact a line."""
        return "\n".join(self.lines())

    def lines(self, columns: int | None = None, head: str = "") -> Iterator[str]:
        """Yield the lines of the text.

        Args:
            columns: the width to wrap at; None for no wrapping. Commands and quotations are never broken.
            head: stands in front.
        """
        origin = f"{self.origin}: " if self.origin else ""
        said = f"{origin}{self.what}  [{self.id}]"
        # A long path does not leave the head alone on its line.
        joined = head[:-1] + _NO_BREAK if head.endswith(" ") else head
        for line in _wrapped(joined + said, columns, "", _INDENT):
            yield line.replace(_NO_BREAK, " ")
        below = _INDENT + " " * _BELOW
        for label, text in (("why: ", self.why), ("fix: ", self.remedy)):
            for number, line in enumerate(text.splitlines()):
                first = _INDENT + label if number == 0 else below
                marker = _NUMBERED.match(line)
                if number and not marker:
                    yield first + line
                else:
                    yield from _wrapped(line, columns, first, below + " " * (marker.end() if marker else 0))


def _wrapped(text: str, columns: int | None, first: str, later: str) -> list[str]:
    return [first + text] if columns is None else wrap(text, columns, first, later)


def numbered(remedies: Sequence[str]) -> str:
    """Return remedies to choose from as one text, each with its number on a line of its own."""
    if len(remedies) == 1:
        return remedies[0]
    return "\n".join(f"{number}. {remedy}" for number, remedy in enumerate(remedies, 1))


class TorchwheelError(Exception):
    """Everything that stops torchwheel, all problems at once.

    Raised with one or more problems; ``str()`` of it is the full text a user sees.
    """

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        if not self.problems:
            raise ValueError("an error needs at least one problem")
        super().__init__(self.render())

    def render(self, columns: int | None = None, head: str = "") -> str:
        """Return all problems, numbered when there is more than one; see :meth:`Problem.lines`."""
        if len(self.problems) == 1:
            return "\n".join(self.problems[0].lines(columns, head))
        lines = [f"{head}{len(self.problems)} problems:"]
        for number, problem in enumerate(self.problems, 1):
            # The other lines of a problem stand below its text, not below its number.
            number_and_first, *rest = problem.lines(columns and columns - 3, f"{number}. ")
            lines += [number_and_first, *(f"   {line}" for line in rest)]
        return "\n".join(lines)


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

    Case, underscores and hyphens do not count. First comes a candidate that differs in how often a key was pressed
    (``h1000``, ``h100``), then one with the same numbers, then one with the same digits: people rarely mistype a
    number alone, and then they swap two digits.
    Give siblings only: names from elsewhere that share a long prefix all look alike.
    """
    if len(name) > _LONGEST:
        return None
    folded = {_fold(candidate): candidate for candidate in sorted(candidates, reverse=True)}
    close = get_close_matches(_fold(name), folded, n=_COMPARED, cutoff=_CUTOFF)
    numbers = _DIGITS.findall(name)
    digits = sorted("".join(numbers))
    keys = _REPEATED.sub(r"\1", _fold(name))
    # The sort is stable, so the most alike stay first among equals.
    best = sorted(
        close,
        key=lambda text: (
            _REPEATED.sub(r"\1", text) != keys,
            _DIGITS.findall(text) != numbers,
            sorted("".join(_DIGITS.findall(text))) != digits,
        ),
    )
    return folded[best[0]] if best else None


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-")
