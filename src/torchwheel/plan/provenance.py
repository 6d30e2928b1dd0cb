"""The part of a build manifest that every plan has: what was decided, and by whom."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torchwheel.findings import Finding, Severity
from torchwheel.plan.document import finding_document
from torchwheel.settings import Settings


def decisions(settings: Settings, findings: Iterable[Finding]) -> dict[str, Any]:
    """Targets, profiles, settings and findings, as ``manifest.schema.json`` describes them."""
    found = tuple(findings)
    return {
        "target": list(settings.target_names),
        "profile": list(settings.profile),
        "layers": [
            {"key": s.key, "value": s.text, "layer": s.layer.title, "origin": s.origin}
            for s in settings.entries.values()
        ],
        "findings": [finding_document(finding) for finding in found],
        "skipped_checks": _skipped(settings, found),
    }


def _skipped(settings: Settings, findings: tuple[Finding, ...]) -> list[str]:
    """The checks that would have stopped this build."""
    errors = {finding.id for finding in findings if finding.severity is Severity.ERROR}
    return sorted(errors.intersection(settings.skip_check))
