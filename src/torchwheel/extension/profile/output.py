"""A profile as a page for people, and as the content of a JSON document: times in seconds, sizes in bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import indent
from typing import Any

from torchwheel.extension.model import Language
from torchwheel.extension.profile.model import HeaderCost, Profile, Saving, SourceProfile, SourceText
from torchwheel.terminal import facts, gib, mib, paragraph, table

_GIB = 1 << 30
_LANGUAGES = {Language.C: "C", Language.CXX: "C++", Language.CUDA: "CUDA"}
_UNKNOWN = "?"
_PROCESSOR_TIME = (
    "Seconds are processor time, measured one compiler at a time and without a compiler cache. HEADERS is what a "
    "source pays for headers of others; PASSES is how often a front end reads them."
)
_ELAPSED_TIME = _PROCESSOR_TIME.replace("processor time", "elapsed time")
_OVERLAP = "What changes would save, each measured here by itself; they overlap, so they do not add up."
_NOTHING = "No change that torchwheel knows of would save enough here to be worth making."


def render_profile(profile: Profile, width: int) -> str:
    """The profile, its lines at most ``width`` columns wide where its words allow that."""
    blocks = [_sources(profile.sources, width), paragraph(_explained(profile.sources), width)]
    blocks.append(paragraph(_build_time(profile), width))
    if profile.headers:
        blocks.append(_headers(profile.headers, width))
    blocks += _savings(profile, width)
    return "\n\n".join(blocks)


def _explained(sources: Sequence[SourceProfile]) -> str:
    measured = all(source.usage.processor_seconds is not None for source in sources)
    return _PROCESSOR_TIME if measured else _ELAPSED_TIME


def _sources(sources: Sequence[SourceProfile], width: int) -> str:
    rows = [
        (
            source.compile.name,
            _LANGUAGES[source.compile.language],
            f"{source.usage.cost:.1f}",
            _seconds(source.headers_seconds),
            str(source.front_end_passes),
            _memory(source.usage.peak_bytes),
            _mostly(source),
        )
        for source in sources
    ]
    return table(("SOURCE", "KIND", "SECONDS", "HEADERS", "PASSES", "MEMORY", "MOSTLY"), rows, width)


def _seconds(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else f"{seconds:.1f}"


def _memory(size: int | None) -> str:
    if size is None:
        return _UNKNOWN
    return gib(size) if size >= _GIB else mib(size)


def _mostly(source: SourceProfile) -> str:
    kind = source.dominating
    return _UNKNOWN if kind is None else f"{kind.value} {source.seconds_of(kind):.1f} s"


def _build_time(profile: Profile) -> str:
    jobs = "one job" if profile.jobs == 1 else f"{profile.jobs} jobs"
    text = f"All together {profile.seconds:.1f} s: with {jobs} a build takes {profile.shortest_build:.1f} s or more"
    longest = max(profile.sources, key=lambda source: source.usage.shortest, default=None)
    if longest is not None and longest.usage.shortest >= profile.shortest_build and len(profile.sources) > 1:
        text += f", because {longest.compile.name} alone takes that long"
    text += "."
    fitting = profile.fitting_jobs
    if fitting is not None and fitting != profile.jobs:
        text += f" By the memory of the dearest source, {fitting} would fit at once: -C jobs={fitting}."
    return text


def _headers(headers: Sequence[HeaderCost], width: int) -> str:
    rows = [
        (
            header.name,
            _LANGUAGES[header.language],
            _seconds(header.seconds),
            _seconds(header.together),
            f"{len(header.sources)}: {', '.join(header.sources)}",
        )
        for header in headers
    ]
    return table(("HEADER ALONE", "KIND", "SECONDS", "TOGETHER", "SOURCES"), rows, width)


def _savings(profile: Profile, width: int) -> Iterator[str]:
    if not profile.savings:
        yield paragraph(_NOTHING, width)
        return
    yield paragraph(_OVERLAP, width)
    for saving in profile.savings:
        yield "\n".join(_saving(saving, profile.seconds, width))


def _saving(saving: Saving, whole: float, width: int) -> Iterator[str]:
    yield paragraph(
        f"{saving.seconds:.1f} s of {whole:.1f} s: {saving.rule.title}  [{saving.rule.id}]", width
    )
    rows = (
        ("where", ", ".join(saving.sources)),
        ("how", saving.rule.text),
        ("reckoned", f"{saving.reckoning}."),
        ("elsewhere", f"{saving.rule.elsewhere}."),
        ("see", saving.rule.source),
    )
    yield indent(facts(rows, width - 4), " " * 4)


def profile_content(profile: Profile) -> dict[str, Any]:
    """What ``torchwheel extension profile --json`` prints, without its heading."""
    return {
        "project": str(profile.project),
        "seconds": profile.seconds,
        "shortest_build_seconds": profile.shortest_build,
        "jobs": profile.jobs,
        "fitting_jobs": profile.fitting_jobs,
        "sources": [_source_content(source) for source in profile.sources],
        "headers": [
            {**asdict(header), "language": header.language.name.lower(), "together_seconds": header.together}
            for header in profile.headers
        ],
        "savings": [_saving_content(saving) for saving in profile.savings],
    }


def _source_content(source: SourceProfile) -> dict[str, Any]:
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
        "phases": [{**asdict(phase), "kind": phase.kind.value} for phase in source.phases],
        "text": _text(source.text) if source.text else None,
        "command": list(source.compile.command),
    }


def _text(text: SourceText) -> dict[str, Any]:
    headers = [{"name": h.name, "lines": h.lines, "bytes": h.size} for h in text.headers]
    return {"lines": text.lines, "bytes": text.size, "headers": headers}


def _saving_content(saving: Saving) -> dict[str, Any]:
    rule = saving.rule
    said = {"title": rule.title, "text": rule.text, "elsewhere": rule.elsewhere, "source": rule.source}
    return {**asdict(saving), "rule": rule.id, **said}
