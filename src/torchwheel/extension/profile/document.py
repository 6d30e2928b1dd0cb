"""A profile as the content of a JSON document; times in seconds, sizes in bytes."""

from __future__ import annotations

from typing import Any

from torchwheel.extension.profile.model import HeaderCost, Phase, Profile, Saving, SourceProfile, SourceText


def profile_content(profile: Profile) -> dict[str, Any]:
    """What ``torchwheel extension profile --json`` prints, without its heading."""
    return {
        "project": str(profile.project),
        "seconds": profile.seconds,
        "shortest_build_seconds": profile.shortest_build,
        "jobs": profile.jobs,
        "fitting_jobs": profile.fitting_jobs,
        "sources": [_source(source) for source in profile.sources],
        "headers": [_header(header) for header in profile.headers],
        "savings": [_saving(saving) for saving in profile.savings],
    }


def _source(source: SourceProfile) -> dict[str, Any]:
    return {
        "sources": list(source.compile.sources),
        "extension": source.compile.extension,
        "language": source.compile.language.name.lower(),
        "elapsed_seconds": source.usage.seconds,
        "processor_seconds": source.usage.processor_seconds,
        "peak_bytes": source.usage.peak_bytes,
        "headers_seconds": source.headers_seconds,
        "front_end_passes": source.front_end_passes,
        "mostly": source.dominating.value if source.dominating else None,
        "phases": [_phase(phase) for phase in source.phases],
        "text": _text(source.text) if source.text else None,
        "command": list(source.compile.command),
    }


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "kind": phase.kind.value,
        "name": phase.name,
        "seconds": phase.seconds,
        "architecture": phase.architecture,
    }


def _text(text: SourceText) -> dict[str, Any]:
    headers = [{"name": h.name, "lines": h.lines, "bytes": h.size} for h in text.headers]
    return {"lines": text.lines, "bytes": text.size, "headers": headers}


def _header(header: HeaderCost) -> dict[str, Any]:
    return {
        "name": header.name,
        "language": header.language.name.lower(),
        "seconds": header.seconds,
        "together_seconds": header.together,
        "sources": list(header.sources),
    }


def _saving(saving: Saving) -> dict[str, Any]:
    return {
        "rule": saving.rule,
        "title": saving.title,
        "text": saving.text,
        "seconds": saving.seconds,
        "sources": list(saving.sources),
        "reckoning": saving.reckoning,
        "elsewhere": saving.elsewhere,
        "source": saving.reference,
    }
