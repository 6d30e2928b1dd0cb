"""Reports as JSON-able data: the content of the documents that ``doctor --json`` and ``lint --json`` print."""

from __future__ import annotations

from typing import Any

from torchwheel.plan.output import finding_document
from torchwheel.preflight.lint import LintReport
from torchwheel.preflight.report import Report, Result


def report_document(report: Report) -> dict[str, Any]:
    """What ``torchwheel doctor --json`` prints."""
    return {
        "wheel": report.wheel,
        "platform": report.platform,
        "ok": not report.errors,
        "findings": [result_document(result) for result in report.results],
        "skipped": list(report.skipped),
        "passed": [{"id": passed.id, "what": passed.sentence} for passed in report.passed],
    }


def lint_document(report: LintReport) -> dict[str, Any]:
    """What ``torchwheel lint --json`` prints."""
    return {
        "ok": not report.errors,
        "findings": [
            {**result_document(found.result), "target": found.target, "platforms": list(found.platforms)}
            for found in report.found
        ],
        "combinations": [
            {
                "target": cell.target,
                "platform": cell.platform,
                "pytorch": cell.pytorch,
                "cuda": list(cell.toolkits),
            }
            for cell in report.cells
        ],
    }


def result_document(result: Result) -> dict[str, str]:
    """One result as JSON-able data."""
    return {**finding_document(result.finding), "nearest": result.nearest, "source": result.source}
