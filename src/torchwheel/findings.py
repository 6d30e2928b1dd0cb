"""What is worth knowing about a build before it starts, graded by what it does to the build."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from torchwheel.errors import Problem, stop_on
from torchwheel.terminal import paint, show, terminal_width, wants_colour


class Severity(Enum):
    """How much a finding matters."""

    ERROR = "error"
    """The build would fail, or its result would not be what its name says."""
    WARNING = "warning"
    """The build works, but perhaps not as the user expects."""
    NOTE = "note"
    """A decision that was made for the user."""

    @property
    def rank(self) -> int:
        """0 for what comes first, which is errors."""
        return tuple(Severity).index(self)


@dataclass(frozen=True)
class Finding:
    """One graded statement about a planned build; ``problem`` holds its text and remedy."""

    severity: Severity
    problem: Problem

    @property
    def id(self) -> str:
        """The stable identifier that ``-C skip-check=ID`` takes."""
        return self.problem.id

    def head(self, skipped: Collection[str] = ()) -> str:
        """What stands in front of the text: the severity, and of an error in ``skipped`` who lets it pass."""
        by = " (skipped by skip-check)" if skipped_errors([self], skipped) else ""
        return f"{self.severity.value}{by}: "

    def render(self, skipped: Collection[str] = ()) -> str:
        return f"{self.head(skipped)}{self.problem.render()}"

    def lines(self, columns: int, head: str = "", place: str = "", *, colour: bool = False) -> Iterator[str]:
        """The finding for a terminal.

        Args:
            head: stands in front instead of the severity.
            place: stands behind the head.
        """
        head = head or self.head()
        first, *rest = self.problem.lines(columns, head + place)
        # A very narrow terminal breaks the line within the head.
        coloured = paint(head, self.severity.value, colour) + first[len(head) :]
        yield coloured if first.startswith(head) else first
        yield from rest

    def document(self) -> dict[str, str]:
        return {"severity": self.severity.value, **vars(self.problem)}


def error(problem: Problem) -> Finding:
    """A finding that stops the build."""
    return Finding(Severity.ERROR, problem)


def warning(problem: Problem) -> Finding:
    """A finding that lets the build go on."""
    return Finding(Severity.WARNING, problem)


def note(problem: Problem) -> Finding:
    """A finding that only informs."""
    return Finding(Severity.NOTE, problem)


def announce(findings: Iterable[Finding], skipped: Collection[str]) -> None:
    """Say what is worth knowing about a build while it goes on: warnings, and errors that are ``skipped``."""
    for finding in findings:
        if finding.severity is not Severity.NOTE:
            head = f"torchwheel: {finding.head(skipped)}"
            show("\n".join(finding.lines(terminal_width(), head, colour=wants_colour())), sys.stdout)


def skipped_errors(findings: Iterable[Finding], skipped: Collection[str]) -> list[str]:
    """The ids of the errors that would stop a build, but that ``skipped`` lets pass, sorted."""
    return sorted({f.id for f in findings if f.severity is Severity.ERROR}.intersection(skipped))


def stopping(findings: Iterable[Finding], skipped: Collection[str] = ()) -> tuple[Finding, ...]:
    """The errors among the findings that stop a build: those whose id is not in ``skipped``."""
    return tuple(f for f in findings if f.severity is Severity.ERROR and f.id not in skipped)


def stop_on_errors(findings: Iterable[Finding], skipped: Collection[str] = ()) -> None:
    """Raise for every error among the findings that stops a build.

    Raises:
        TorchwheelError: at least one error is left; all of them are in it.
    """
    stop_on(f.problem for f in stopping(findings, skipped))
