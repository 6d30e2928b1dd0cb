"""Doctor's report as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchwheel.preflight.report import NEEDLESS_BUILD, Report
from torchwheel.reporting.errors import Finding, Severity, skipped_errors
from torchwheel.reporting.terminal import count_noun, format_facts, paint, wrap


def render_report(
    report: Report, columns: int = 80, *, colour: bool = False, every: bool = False, sources: bool = False
) -> str:
    """Render doctor's report: findings in the order of fixing, passed checks, and what could not be checked."""
    lines: list[str] = []
    if report.wheel:
        lines += [paint(report.wheel, "heading", colour), ""]
    for result in report.results:
        finding = result.finding
        head = "note: " if finding.id in NEEDLESS_BUILD else finding.head(report.skipped)
        source = [f"    source: {result.source}"] if sources and result.source else []
        lines += [*finding.lines(columns, head, colour=colour), *source, ""]
    for sentence in report.passed.values() if every else ():
        lines += _item_lines("  ok  ", "ok", sentence, columns, colour)
    for missing, ids in report.unchecked.items():
        sentence = f"not known: {missing}; so these rules were not checked: {', '.join(ids)}"
        lines += _item_lines("  ?   ", "warning", sentence, columns, colour)
    if (every and report.passed) or report.unchecked:
        lines.append("")
    return "\n".join([*lines, *_summary_lines(report, columns, colour, every=every)])


def _item_lines(head: str, style: str, text: str, columns: int, colour: bool) -> Iterator[str]:
    first, *rest = wrap(text, columns - len(head))
    yield paint(head, style, colour) + first
    yield from (" " * len(head) + line for line in rest)


def _summary_lines(report: Report, columns: int, colour: bool, *, every: bool) -> Iterator[str]:
    if report.effort:
        yield from (*format_facts(report.effort.rows, columns).splitlines(), "")
    if report.evidence:
        yield from wrap(report.evidence, columns)
    unchecked = sum(map(len, report.unchecked.values()))
    skipped = skipped_errors(report.findings, report.skipped)
    left = [finding for finding in report.findings if finding.id not in skipped]
    counts = [
        *_count_severities(left),
        *([f"{count_noun(len(skipped), 'error')} skipped"] if skipped else []),
        f"{count_noun(len(report.passed), 'check')} passed{'' if every else ' (--all)'}",
    ]
    counts += [f"{count_noun(unchecked, 'check')} could not be made"] if unchecked else []
    verdict = (
        "the build would fail"
        if report.errors
        else "no error was found"
        if not skipped
        else "no other error was found"
    )
    style = "error" if report.errors else "ok"
    yield from (paint(line, style, colour) for line in wrap(f"{verdict}: {', '.join(counts)}", columns))


def _count_severities(findings: Iterable[Finding]) -> list[str]:
    """Count the findings by severity, the worst first: ``2 errors``, ``1 note``."""
    severities = [finding.severity for finding in findings]
    return [count_noun(severities.count(one), one.value) for one in Severity if one in severities]
