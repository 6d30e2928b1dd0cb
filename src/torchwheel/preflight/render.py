"""A report as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from torchwheel.findings import Severity
from torchwheel.preflight.formatting import counted
from torchwheel.preflight.report import NEED_NOT_BUILD, Report, Result
from torchwheel.preflight.terminal import paint, paragraph

_INDENT = "    "


def render_report(report: Report, columns: int = 80, *, colour: bool = False) -> str:
    """The whole report: what need not be done, what to fix first, and what is fine.

    Args:
        report: what was found.
        columns: the terminal's width.
        colour: use ANSI colours.
    """
    lines: list[str] = []
    if report.wheel:
        lines += [paint(report.wheel, "heading", colour), ""]
    for result in report.results:
        lines += [*_result(result, report, columns, colour), ""]
    for passed in report.passed:
        head = "  ok  "
        first, *rest = paragraph(passed.sentence, columns - len(head))
        lines.append(paint(head, "ok", colour) + first)
        lines += [" " * len(head) + line for line in rest]
    if report.passed:
        lines.append("")
    return "\n".join([*lines, *_summary(report, columns, colour)])


def _result(result: Result, report: Report, columns: int, colour: bool) -> Iterator[str]:
    finding = result.finding
    problem, severity = finding.problem, finding.severity.value
    label = "first of all" if finding.id == NEED_NOT_BUILD else severity
    skipped = " (skipped)" if finding.id in report.skipped else ""
    head = f"{label}{skipped}: "
    origin = f"{problem.origin}: " if problem.origin else ""
    first, *rest = paragraph(f"{head}{origin}{problem.what}  [{problem.id}]", columns, "", _INDENT)
    yield paint(head, severity, colour) + first[len(head) :] if first.startswith(head) else first
    yield from rest
    if problem.why:
        yield from paragraph(f"why: {problem.why}", columns, _INDENT, _INDENT + "     ")
    yield from paragraph(f"fix: {problem.remedy}", columns, _INDENT, _INDENT + "     ")


def _summary(report: Report, columns: int, colour: bool) -> Iterator[str]:
    counts = dict.fromkeys(Severity, 0)
    for finding in report.findings:
        counts[finding.severity] += 1
    text = ", ".join(counted(number, severity.value) for severity, number in counts.items() if number)
    passed = f"{counted(len(report.passed), 'check')} passed"
    style = "error" if report.errors else "ok"
    verdict = "the build would fail" if report.errors else "nothing stands in the way of this build"
    lines = paragraph(f"{verdict}: {', '.join(filter(None, (text, passed)))}", columns)
    yield from (paint(line, style, colour) for line in lines)
