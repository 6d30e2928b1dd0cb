"""What lint found, and its matrix of what works, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from torchwheel.findings import Severity
from torchwheel.preflight.formatting import counted, span
from torchwheel.preflight.lint import Cell, Found, LintReport
from torchwheel.preflight.terminal import paint, paragraph

_INDENT = "    "


def render_lint(report: LintReport, columns: int = 80, *, colour: bool = False) -> str:
    """The report as text.

    Args:
        report: what was found.
        columns: the terminal's width.
        colour: use ANSI colours.
    """
    lines: list[str] = []
    for found in report.found:
        lines += [*_found(found, columns, colour), ""]
    for place, group in groupby(report.cells, key=lambda cell: (cell.target, cell.platform)):
        lines += [paint(f"{place[0]} on {place[1]}", "heading", colour), *_matrix(group), ""]
    return "\n".join([*lines, _summary(report, colour)])


def _found(found: Found, columns: int, colour: bool) -> Iterator[str]:
    finding = found.result.finding
    problem, severity = finding.problem, finding.severity.value
    head = f"{severity}: "
    place = f"{found.target} ({', '.join(found.platforms)}): "
    origin = f"{problem.origin}: " if problem.origin else ""
    first, *rest = paragraph(f"{head}{place}{origin}{problem.what}  [{problem.id}]", columns, "", _INDENT)
    yield paint(head, severity, colour) + first[len(head) :]
    yield from rest
    if problem.why:
        yield from paragraph(f"why: {problem.why}", columns, _INDENT, _INDENT + "     ")
    yield from paragraph(f"fix: {problem.remedy}", columns, _INDENT, _INDENT + "     ")


def _matrix(cells: Iterable[Cell]) -> Iterator[str]:
    """One line for each run of releases that the same toolkits work with."""
    for what, group in groupby(cells, key=_what_works):
        versions = [cell.pytorch for cell in group]
        yield f"{_INDENT}PyTorch {span(versions):<14} {what}"


def _what_works(cell: Cell) -> str:
    if not cell.cuda:
        return "without CUDA"
    return f"CUDA {span(cell.toolkits)}" if cell.toolkits else "no CUDA toolkit works"


def _summary(report: LintReport, colour: bool) -> str:
    numbers = dict.fromkeys(Severity, 0)
    for found in report.found:
        numbers[found.result.finding.severity] += 1
    text = ", ".join(counted(number, severity.value) for severity, number in numbers.items() if number)
    combinations = sum(len(cell.toolkits) or (not cell.cuda) for cell in report.cells)
    working = f"{counted(combinations, 'combination')} work"
    style = "error" if report.errors else "ok"
    return paint(f"{'failed' if report.errors else 'passed'}: ", style, colour) + ", ".join(
        filter(None, (text, working))
    )
