"""Compiling one source once more, with its output thrown away, to see what it costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torchwheel.errors import Problem
from torchwheel.extension.profile.header_names import header_name, is_foreign
from torchwheel.extension.profile.invocation import CompilerFamily, Invocation, invocation_of
from torchwheel.extension.profile.line_markers import read_source_text
from torchwheel.extension.profile.model import (
    Compile,
    Compiles,
    Phase,
    PhaseKind,
    SourceProfile,
    SourceText,
    Usage,
)
from torchwheel.extension.profile.processes import Finished
from torchwheel.extension.profile.reports import clang_phases, gcc_phases, msvc_phases, nvcc_phases
from torchwheel.extension.profile.sandbox import Workplace

# nvcc writes where it is told to, Clang beside the object.
_TABLE, _TRACE = "times.csv", "object.json"
_SHOWN_LINES = 5
_ERROR_WORDS = ("error", "fatal", "no such file", "not found")
# Asking for the time at every turn takes GCC a good part of the time that it reports.
_SLOWED_BY_REPORT: CompilerFamily = "gcc"


@dataclass(frozen=True)
class Measured:
    """One source that was compiled.

    Attributes:
        invocation: its command, to measure more with.
        profile: what it costs.
    """

    invocation: Invocation
    profile: SourceProfile


def measure_compile(compile: Compile, compiles: Compiles, place: Workplace) -> Measured | Problem:
    """Compile a source and say what it costs, or why it does not compile."""
    invocation = invocation_of(compile)
    finished, phases = _compile(invocation, compile, place)
    if finished.status != 0:
        return _failed(compile, finished)
    text = _text(invocation, compile, compiles, place)
    headers = tuple(header.name for header in text.headers) if text else ()
    seconds = place.header_seconds(invocation, headers) if headers else None
    if text is not None and not headers:
        seconds = 0.0
    return Measured(
        invocation,
        SourceProfile(
            compile=compile,
            usage=finished.usage,
            phases=_scaled(phases, finished.usage),
            text=text,
            headers_seconds=seconds,
            front_end_passes=_passes(phases, invocation.family),
        ),
    )


def _compile(
    invocation: Invocation, compile: Compile, place: Workplace
) -> tuple[Finished, tuple[Phase, ...]]:
    output = place.scratch / "object.o"
    for report in (_TABLE, _TRACE):
        (place.scratch / report).unlink(missing_ok=True)
    timed = invocation.timed(compile.path, output, place.scratch / _TABLE)
    if invocation.family != _SLOWED_BY_REPORT:
        finished = place.run(timed, compile.name, compile.folder)
        return finished, _phases(invocation, finished, place)
    finished = place.run(invocation.compiling(compile.path, output), compile.name, compile.folder)
    if finished.status != 0:
        return finished, ()
    reported = place.run(timed, f"{compile.name}, phases", compile.folder)
    return finished, _phases(invocation, reported, place)


def _phases(invocation: Invocation, finished: Finished, place: Workplace) -> tuple[Phase, ...]:
    if invocation.family == "nvcc":
        return nvcc_phases(_read(place, _TABLE))
    if invocation.family == "clang":
        return clang_phases(_read(place, _TRACE))
    return (msvc_phases if invocation.family == "msvc" else gcc_phases)(finished.output)


def _read(place: Workplace, name: str) -> str:
    file = place.scratch / name
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _scaled(phases: tuple[Phase, ...], usage: Usage) -> tuple[Phase, ...]:
    """The phases with their sum made the compile's cost: reports are of elapsed time, or of a second run."""
    whole = sum(phase.seconds for phase in phases)
    return (
        tuple(replace(phase, seconds=phase.seconds / whole * usage.cost) for phase in phases) if whole else ()
    )


def _passes(phases: tuple[Phase, ...], family: CompilerFamily) -> int:
    """Front ends that read the headers: nvcc's own, one for each virtual architecture, and the host compiler's."""
    if family != "nvcc" or not phases:
        return 1
    reading = (PhaseKind.FRONT_END, PhaseKind.DEVICE, PhaseKind.HOST)
    return sum(phase.kind in reading for phase in phases)


def _text(
    invocation: Invocation, compile: Compile, compiles: Compiles, place: Workplace
) -> SourceText | None:
    output = place.scratch / "preprocessed.ii"
    command = invocation.preprocessing(compile.path, output)
    if command is None or place.run(command, f"{compile.name}, preprocessed", compile.folder).status != 0:
        return None
    folders = invocation.include_dirs

    def name_of(path: str) -> str:
        return header_name(path, folders)

    def foreign(path: str, system: bool) -> bool:
        return is_foreign(path, system, name_of(path), compiles.project, place.folder / compile.folder)

    with output.open("rb") as lines:
        return read_source_text(lines, foreign, name_of)


def _failed(compile: Compile, finished: Finished) -> Problem:
    lines = [line.strip() for line in finished.output.splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line.lower() for word in _ERROR_WORDS)] or lines
    shown = "".join(f"\n         {line}" for line in telling[:_SHOWN_LINES])
    return Problem(
        id="source-does-not-compile",
        what=f"{compile.name} does not compile, so there is nothing to measure",
        why=f"{compile.command[0]} ended with status {finished.status}{':' + shown if shown else ''}",
        remedy="mend it, or leave it out: --source names the sources to measure",
        origin=compile.extension,
    )
