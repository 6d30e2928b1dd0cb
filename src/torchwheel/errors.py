"""The one error type that reaches a user: what happened, why, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


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
    return refusal(
        id="unreadable-file",
        what=f"cannot be read: {error.strerror}",
        remedy="check that the file exists and that you may read it",
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
