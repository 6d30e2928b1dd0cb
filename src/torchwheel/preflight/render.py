"""What doctor found, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchwheel.errors import Finding, Severity, skipped_errors
from torchwheel.preflight.report import FIRST_OF_ALL, Report
from torchwheel.terminal import counted, facts, paint, wrap


def render_report(
    report: Report, columns: int = 80, *, colour: bool = False, every: bool = False, sources: bool = False
) -> str:
    """Doctor's report: what need not be done, what to fix first, what is fine, and what could not be checked.

    Args:
        every: list the checks that passed, not only their number.
        sources: name the document that the fact behind each finding comes from.
    """
    lines: list[str] = []
    if report.wheel:
        lines += [paint(report.wheel, "heading", colour), ""]
    for result in report.results:
        finding = result.finding
        head = "note: " if finding.id in FIRST_OF_ALL else finding.head(report.skipped)
        source = [f"    source: {result.source}"] if sources and result.source else []
        lines += [*finding.lines(columns, head, colour=colour), *source, ""]
    for sentence in report.passed.values() if every else ():
        lines += _item("  ok  ", "ok", sentence, columns, colour)
    for missing, ids in report.unchecked.items():
        sentence = f"not known: {missing}; so these rules were not checked: {', '.join(ids)}"
        lines += _item("  ?   ", "warning", sentence, columns, colour)
    if (every and report.passed) or report.unchecked:
        lines.append("")
    return "\n".join([*lines, *_summary(report, columns, colour, every=every)])


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
