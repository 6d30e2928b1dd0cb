"""Measuring a project: its sources one by one, then their headers, then the changes of ``advice.toml`` that might pay.

Every source is compiled once more, and its output thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._files import beginning
from torchwheel._toml import read_toml
from torchwheel.errors import Problem, stop_on
from torchwheel.extension.compile.units import unity_file_count
from torchwheel.extension.model import Language
from torchwheel.extension.profile.headers import (
    header_name,
    is_foreign,
    least_part,
    matches,
    read_source_text,
)
from torchwheel.extension.profile.invocation import (
    CompilerFamily,
    Invocation,
    clang_phases,
    gcc_phases,
    invocation_of,
    msvc_phases,
    nvcc_phases,
)
from torchwheel.extension.profile.model import (
    AdviceRule,
    Compile,
    Compiles,
    HeaderCost,
    Phase,
    PhaseKind,
    Profile,
    Saving,
    SourceProfile,
    SourceText,
    Usage,
)
from torchwheel.extension.profile.sandbox import Finished, Sandbox, Say, open_sandbox
from torchwheel.host.jobs import job_figures, memory_budget

# nvcc writes to a file that --time names, Clang beside the object.
_TABLE, _TRACE = "times.csv", "object.json"
_SHOWN_LINES = 5
_ERROR_WORDS = ("error", "fatal", "no such file", "not found")
# Asking for the time at every turn takes GCC a good part of the time that it reports.
_SLOWED_BY_REPORT: CompilerFamily = "gcc"


def measure_project(
    compiles: Compiles,
    environment: Mapping[str, str],
    *,
    memory_bytes: int | None,
    cores: int | None,
    say: Say,
) -> Profile:
    """Compile every source once more and measure it; memory (bytes) and cores are what a build may use.

    One compiler runs at a time; nothing is written into the project or its build folder.

    Raises:
        TorchwheelError: sources do not compile; all of them are in it.
    """
    with open_sandbox(compiles, environment, say) as sandbox:
        results = [_measure_compile(compile, compiles, sandbox) for compile in compiles.compiles]
        problems = [result for result in results if isinstance(result, Problem)]
        stop_on(problems)
        measured = [result for result in results if isinstance(result, Measured)]
        measured.sort(key=lambda one: -one.profile.usage.cost)
        headers = _header_costs(measured, sandbox)
        savings = find_savings(measured, shipped_rules(), sandbox)
    sources = tuple(one.profile for one in measured)
    return Profile(
        project=compiles.project,
        sources=sources,
        headers=headers,
        savings=savings,
        seconds=sum(source.usage.cost for source in sources),
        jobs=compiles.jobs,
        fitting_jobs=_fitting_jobs(sources, memory_bytes, cores),
    )


def _header_costs(measured: Sequence[Measured], sandbox: Sandbox) -> tuple[HeaderCost, ...]:
    """The headers that bring much of any source's text, each measured alone in the dearest source's way."""
    users: dict[tuple[Language, str], list[Measured]] = {}
    large: set[tuple[Language, str]] = set()
    for one in measured:
        text = one.profile.text
        for header in text.headers if text else ():
            key = (one.invocation.language, header.name)
            users.setdefault(key, []).append(one)
            if text is not None and text.share(header) >= least_part():
                large.add(key)
    costs = [
        HeaderCost(
            name=name,
            language=language,
            seconds=sandbox.header_seconds(having[0].invocation, (name,)),
            sources=tuple(one.profile.compile.name for one in having),
        )
        for (language, name), having in users.items()
        if (language, name) in large
    ]
    return tuple(sorted(costs, key=lambda cost: -(cost.together or 0.0)))


def _fitting_jobs(
    sources: Iterable[SourceProfile], memory_bytes: int | None, cores: int | None
) -> int | None:
    """How many of the compile that takes most memory run at once without running out of it."""
    peaks = [source.usage.peak_bytes for source in sources if source.usage.peak_bytes]
    if not peaks or memory_bytes is None or cores is None:
        return None
    budget = memory_budget(memory_bytes, job_figures().reserve)
    return max(1, min(cores, budget // max(peaks)))


def _measure_compile(compile: Compile, compiles: Compiles, sandbox: Sandbox) -> Measured | Problem:
    """Compile a source and say what it costs, or why it does not compile."""
    invocation = invocation_of(compile)
    finished, phases = _compile(invocation, compile, sandbox)
    if finished.status != 0:
        return _failed(compile, finished)
    text = _text(invocation, compile, compiles, sandbox)
    headers = _headers(text)
    seconds = sandbox.header_seconds(invocation, headers) if headers else None
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
    invocation: Invocation, compile: Compile, sandbox: Sandbox
) -> tuple[Finished, tuple[Phase, ...]]:
    output = sandbox.scratch / "object.o"
    for report in (_TABLE, _TRACE):
        (sandbox.scratch / report).unlink(missing_ok=True)
    timed = invocation.timed(compile.path, output, sandbox.scratch / _TABLE)
    if invocation.family != _SLOWED_BY_REPORT:
        finished = sandbox.run(timed, compile.name, compile.folder)
        return finished, _phases(invocation, finished, sandbox)
    finished = sandbox.run(invocation.compiling(compile.path, output), compile.name, compile.folder)
    if finished.status != 0:
        return finished, ()
    reported = sandbox.run(timed, f"{compile.name}, phases", compile.folder)
    return finished, _phases(invocation, reported, sandbox)


def _phases(invocation: Invocation, finished: Finished, sandbox: Sandbox) -> tuple[Phase, ...]:
    if invocation.family == "nvcc":
        return nvcc_phases(_read(sandbox, _TABLE))
    if invocation.family == "clang":
        return clang_phases(_read(sandbox, _TRACE))
    return (msvc_phases if invocation.family == "msvc" else gcc_phases)(finished.output)


def _read(sandbox: Sandbox, name: str) -> str:
    return beginning(sandbox.scratch / name, -1)


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
    invocation: Invocation, compile: Compile, compiles: Compiles, sandbox: Sandbox
) -> SourceText | None:
    output = sandbox.scratch / "preprocessed.ii"
    command = invocation.preprocessing(compile.path, output)
    if command is None or sandbox.run(command, f"{compile.name}, preprocessed", compile.folder).status != 0:
        return None
    folders = invocation.include_dirs

    def name_of(path: str) -> str:
        return header_name(path, folders)

    def foreign(path: str, system: bool) -> bool:
        return is_foreign(path, system, name_of(path), compiles.project, sandbox.folder / compile.folder)

    with output.open("rb") as lines:
        return read_source_text(lines, foreign, name_of)


def _failed(compile: Compile, finished: Finished) -> Problem:
    lines = [line.strip() for line in finished.output.splitlines() if line.strip()]
    shown = [line for line in lines if any(word in line.lower() for word in _ERROR_WORDS)] or lines
    text = "".join(f"\n         {line}" for line in shown[:_SHOWN_LINES])
    return Problem(
        id="source-does-not-compile",
        what=f"{compile.name} does not compile, so there is nothing to measure",
        why=f"{compile.command[0]} ended with status {finished.status}{':' + text if text else ''}",
        remedy="mend it, or leave it out: --source names the sources to measure",
        origin=compile.extension,
    )


@dataclass(frozen=True)
class Rules:
    """All rules, and what a change has to save at least to be reported.

    Attributes:
        least_part: of the time of all compiles, from 0 to 1.
        least_seconds: in seconds.
    """

    rules: tuple[AdviceRule, ...]
    least_part: float
    least_seconds: float


@cache
def shipped_rules() -> Rules:
    data = read_toml(Path(__file__).with_name("advice.toml"))
    least = data["least"]
    return Rules(tuple(_rule(table) for table in data["rule"]), float(least["part"]), float(least["seconds"]))


def _rule(table: Mapping[str, Any]) -> AdviceRule:
    names = {"except": "exceptions"}
    values: dict[str, Any] = {
        names.get(key, key): tuple(v) if isinstance(v, list) else v for key, v in table.items()
    }
    if "language" in values:
        values["language"] = Language(values["language"])
    return AdviceRule(**values)


@dataclass(frozen=True)
class Measured:
    """One source that was compiled, and its command to measure more with."""

    invocation: Invocation
    profile: SourceProfile


_Measure = Callable[[AdviceRule, Sequence[Measured], Sandbox], Iterator[Saving]]


def find_savings(measured: Sequence[Measured], rules: Rules, sandbox: Sandbox) -> tuple[Saving, ...]:
    """Every change that would save enough to be reported, largest first."""
    least = max(rules.least_seconds, rules.least_part * sum(one.profile.usage.cost for one in measured))
    found = (saving for rule in rules.rules for saving in _MEASURES[rule.kind](rule, measured, sandbox))
    return tuple(sorted((s for s in found if s.seconds >= least), key=lambda saving: -saving.seconds))


def _other_headers(rule: AdviceRule, measured: Sequence[Measured], sandbox: Sandbox) -> Iterator[Saving]:
    """Measure the headers of each source as they are, and with others in the place of those that match."""
    exchanges = [
        exchange
        for one in measured
        if one.invocation.language is rule.language
        for exchange in _exchange(rule, one, sandbox)
        if exchange[1] > sum(exchange[2:])
    ]
    if not exchanges:
        return
    names, *columns = zip(*exchanges, strict=True)
    before, after, moved = map(sum, columns)
    into = f" with {', '.join(rule.instead)}" if rule.instead else " without them"
    text = f"headers take {before:.1f} s now and {after:.1f} s{into}"
    if rule.moved:
        text += f"; one C++ source for each with {', '.join(rule.moved)} adds {moved:.1f} s"
    yield Saving(rule, before - after - moved, names, text)


def _exchange(rule: AdviceRule, one: Measured, sandbox: Sandbox) -> Iterator[tuple[str, float, float, float]]:
    """A source, and what its headers cost before and after a change, and those of a source that takes over."""
    before = one.profile.headers_seconds
    names = _headers(one.profile.text)
    about = [name for name in names if matches(name, rule.headers) and not matches(name, rule.exceptions)]
    if before is None or not about:
        return
    kept = [name for name in names if name not in about]
    after = sandbox.header_seconds(one.invocation, tuple(dict.fromkeys([*rule.instead, *kept])))
    # A C++ source compiled with a CUDA source's flags: nvcc gives it to the host compiler as it is.
    on_host = replace(one.invocation.without(("-x", "cu")), language=Language.CXX)
    moved = sandbox.header_seconds(on_host, rule.moved) if rule.moved else 0.0
    if after is not None and moved is not None:
        yield one.profile.compile.name, before, after, moved


def _unity(rule: AdviceRule, measured: Sequence[Measured], sandbox: Sandbox) -> Iterator[Saving]:
    """Measure all headers of sources with the same command in one file, as often as there would be such files."""
    groups: dict[tuple[str, Invocation], list[Measured]] = {}
    for one in measured:
        if one.invocation.language is not Language.C and len(one.profile.compile.sources) == 1:
            groups.setdefault((one.profile.compile.extension, one.invocation), []).append(one)
    for (_, invocation), members in groups.items():
        costs = [one.profile.headers_seconds for one in members]
        before = [cost for cost in costs if cost is not None]
        files = unity_file_count(len(members))
        if len(members) <= files or len(before) < len(costs):
            continue
        union = tuple(dict.fromkeys(name for one in members for name in _headers(one.profile.text)))
        together = sandbox.header_seconds(invocation, union)
        if together is not None:
            text = f"headers of {len(members)} sources take {sum(before):.1f} s one by one, and {together:.1f} s in "
            text += f"each of {files}" if files > 1 else "one file"
            yield Saving(rule, sum(before) - files * together, _names(members), text)


def _single_pass(rule: AdviceRule, measured: Sequence[Measured], sandbox: Sandbox) -> Iterator[Saving]:
    """All but one of the runs of nvcc's device front end, as nvcc timed them."""
    saved, sources = 0.0, []
    for one in measured:
        phases = [p for p in one.profile.phases if p.kind in (PhaseKind.DEVICE, PhaseKind.PREPROCESS)]
        runs = len({p.architecture for p in phases if p.kind is PhaseKind.DEVICE})
        if runs > 1:
            saved += sum(p.seconds for p in phases if p.architecture) * (runs - 1) / runs
            sources.append(one)
    if sources:
        text = "all but one of the runs of cicc and of the preprocessor before it, as nvcc timed them"
        yield Saving(rule, saved, _names(sources), text)


def _without_flags(rule: AdviceRule, measured: Sequence[Measured], sandbox: Sandbox) -> Iterator[Saving]:
    """Compile the dearest source that has such flags once without them; of others nothing is said."""
    having = [one for one in measured if set(rule.flags) & set(one.invocation.flags)]
    if not having:
        return
    one = max(having, key=lambda m: m.profile.usage.cost)
    compile, before = one.profile.compile, one.profile.usage.cost
    command = one.invocation.without(rule.flags).compiling(compile.path, sandbox.scratch / "object.o")
    finished = sandbox.run(command, f"{compile.name}, {rule.title}", compile.folder)
    if finished.status == 0:
        after = finished.usage.cost
        more = f"; {len(having) - 1} more have such flags" if len(having) > 1 else ""
        text = f"compiled with and without: {before:.1f} s and {after:.1f} s{more}"
        yield Saving(rule, before - after, (compile.name,), text)


_MEASURES: dict[str, _Measure] = {
    "headers": _other_headers,
    "unity": _unity,
    "single-pass": _single_pass,
    "flags": _without_flags,
}


def _headers(text: SourceText | None) -> tuple[str, ...]:
    return tuple(header.name for header in text.headers) if text else ()


def _names(measured: Iterable[Measured]) -> tuple[str, ...]:
    return tuple(one.profile.compile.name for one in measured)
