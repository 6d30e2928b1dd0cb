"""Comparisons with a bar, printed after the table of pytest-benchmark: measured, allowed, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import pytest

_LINES = pytest.StashKey[list[str]]()


@dataclass(frozen=True)
class Bars:
    """Where comparisons are written down for the end of the run."""

    lines: list[str]

    def absolute(self, name: str, seconds: list[float], allowed: float) -> None:
        """Hold the median against a number of seconds."""
        measured = median(seconds)
        verdict = _verdict(measured <= allowed)
        self.lines.append(
            f"{name}: median {measured * 1000:.0f} ms of {len(seconds)} runs, "
            f"bar {allowed * 1000:.0f} ms: {verdict}"
        )

    def paired(
        self, name: str, ours: list[float], alone: list[float], *, factor: float, constant: float
    ) -> None:
        """Hold the median against that of what is wrapped, times ``factor`` plus ``constant`` seconds.

        The runs are pairs, one of each taken in turn, so the ratio of every pair compares like with like on a
        machine that has other things to do.
        """
        ratio = median(one / other for one, other in zip(ours, alone, strict=True))
        excess = median(one - (other * factor + constant) for one, other in zip(ours, alone, strict=True))
        self.lines.append(
            f"{name}: median {median(ours) * 1000:.0f} ms, alone {median(alone) * 1000:.0f} ms, "
            f"paired ratio {ratio:.3f}, {-excess * 1000:+.0f} ms to the bar "
            f"(alone x {factor} + {constant * 1000:.0f} ms) in {len(ours)} pairs: {_verdict(excess <= 0)}"
        )


def _verdict(holds: bool) -> str:
    return "holds" if holds else "DOES NOT HOLD"


@pytest.fixture(scope="session")
def bars(pytestconfig: pytest.Config) -> Iterator[Bars]:
    yield Bars(pytestconfig.stash.setdefault(_LINES, []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the comparisons."""
    lines = config.stash.get(_LINES, [])
    if lines:
        terminalreporter.section("bars")
        for line in lines:
            terminalreporter.write_line(line)
