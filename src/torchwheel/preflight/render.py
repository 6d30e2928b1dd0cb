"""What doctor and lint found, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from torchwheel.findings import Finding, Severity, skipped_errors
from torchwheel.preflight.lint import Cell, LintReport
from torchwheel.preflight.report import FIRST_OF_ALL, Report
from torchwheel.terminal import counted, facts, paint, wrap
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.versions import span

_INDENT = "    "
_MEANINGS = (
    "published: an official build for the platform is made with it",
    "untried: no rule speaks against it, and no official build is known to be made with it",
)


def render_report(report: Report, columns: int = 80, *, colour: bool = False, every: bool = False) -> str:
    """Doctor's report: what need not be done, what to fix first, what is fine, and what could not be checked.

    Args:
        every: list the checks that passed, not only their number.
    """
    lines: list[str] = []
    if report.wheel:
        lines += [paint(report.wheel, "heading", colour), ""]
    for finding in report.findings:
        head = "first of all: " if finding.id in FIRST_OF_ALL else finding.head(report.skipped)
        lines += [*finding.lines(columns, head, colour=colour), ""]
    for sentence in report.passed.values() if every else ():
        lines += _item("  ok  ", "ok", sentence, columns, colour)
    for missing, ids in report.unchecked.items():
        sentence = f"not known: {missing}; so these rules were not checked: {', '.join(ids)}"
        lines += _item("  ?   ", "warning", sentence, columns, colour)
    if (every and report.passed) or report.unchecked:
        lines.append("")
    return "\n".join([*lines, *_summary(report, columns, colour, every=every)])


def render_lint(report: LintReport, columns: int = 80, *, colour: bool = False) -> str:
    """Lint's findings, and its matrix of what nothing speaks against; arguments as of ``render_report``."""
    lines: list[str] = []
    for found in report.found:
        finding, place = found.result.finding, f"{found.target} ({', '.join(found.platforms)}): "
        lines += [*finding.lines(columns, place=place, colour=colour), ""]
    for (target, platform), group in groupby(report.cells, key=lambda cell: (cell.target, cell.platform)):
        lines += [paint(f"{target} on {platform}", "heading", colour), *_matrix(group, columns), ""]
    for meaning in _MEANINGS if report.cells else ():
        lines += wrap(meaning, columns, "", _INDENT)
    published = sum(len(cell.published) for cell in report.cells)
    untried = sum(len(cell.untried) for cell in report.cells)
    verdict = paint("failed: " if report.errors else "passed: ", "error" if report.errors else "ok", colour)
    counts = _counts(found.result.finding for found in report.found)
    matrix = f"{counted(published, 'combination')} published, {untried} that nobody is known to have tried"
    return "\n".join([*lines, verdict + ", ".join([*counts, matrix])])


def _item(head: str, style: str, text: str, columns: int, colour: bool) -> Iterator[str]:
    first, *rest = wrap(text, columns - len(head))
    yield paint(head, style, colour) + first
    yield from (" " * len(head) + line for line in rest)


def _summary(report: Report, columns: int, colour: bool, *, every: bool) -> Iterator[str]:
    if report.effort:
        yield from (*facts(report.effort.rows, columns).splitlines(), "")
    if report.evidence:
        yield from wrap(report.evidence, columns)
    unchecked = sum(map(len, report.unchecked.values()))
    skipped = skipped_errors(report.findings, report.skipped)
    left = [finding for finding in report.findings if finding.id not in skipped]
    counts = [
        *_counts(left),
        *([f"{counted(len(skipped), 'error')} skipped"] if skipped else []),
        f"{counted(len(report.passed), 'check')} passed{'' if every else ' (--all)'}",
    ]
    counts += [f"{counted(unchecked, 'check')} could not be made"] if unchecked else []
    verdict = (
        "the build would fail"
        if report.errors
        else "no error was found"
        if not skipped
        else "no other error was found"
    )
    style = "error" if report.errors else "ok"
    yield from (paint(line, style, colour) for line in wrap(f"{verdict}: {', '.join(counts)}", columns))


def _counts(findings: Iterable[Finding]) -> list[str]:
    """``2 errors``, ``1 note``: what there is, the worst first."""
    severities = [finding.severity for finding in findings]
    return [counted(severities.count(one), one.value) for one in Severity if one in severities]


def _matrix(cells: Iterable[Cell], columns: int) -> Iterator[str]:
    """An entry for each run of releases that the same toolkits go with."""
    for what, group in groupby(cells, key=_what_goes):
        head = f"{_INDENT}PyTorch {span([cell.pytorch for cell in group]):<14} "
        yield from wrap(what, columns, head, " " * len(head))


def _what_goes(cell: Cell) -> str:
    found = {"published": cell.published, "untried": cell.untried}
    shown = [f"{word}: {_cuda(versions)}" for word, versions in found.items() if versions]
    return "; ".join(shown) or "none: a rule speaks against every CUDA toolkit"


def _cuda(versions: Sequence[str]) -> str:
    """``CUDA 12.6, 12.9 to 13.2``, consecutive releases together."""
    if "" in versions:
        return "without CUDA"
    order = [release.version for release in toolkits()]
    runs = [list(run) for _, run in groupby(enumerate(versions), lambda item: order.index(item[1]) - item[0])]
    return f"CUDA {', '.join(span([version for _, version in run]) for run in runs)}"
