"""What the changes of ``advice.toml`` would save in a project, measured with its own compilers and headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.extension.compile.units import unity_file_count
from torchwheel.extension.model import Language
from torchwheel.extension.profile.headers import matches
from torchwheel.extension.profile.invocation import Invocation
from torchwheel.extension.profile.model import AdviceRule, PhaseKind, Saving, SourceProfile
from torchwheel.extension.profile.sandbox import Sandbox


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
    """The shipped rules, read once."""
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


def find_savings(measured: Sequence[Measured], rules: Rules, place: Sandbox) -> tuple[Saving, ...]:
    """Every change that would save enough to be reported, largest first."""
    least = max(rules.least_seconds, rules.least_part * sum(one.profile.usage.cost for one in measured))
    found = (saving for rule in rules.rules for saving in _MEASURES[rule.kind](rule, measured, place))
    return tuple(sorted((s for s in found if s.seconds >= least), key=lambda saving: -saving.seconds))


def _other_headers(rule: AdviceRule, measured: Sequence[Measured], place: Sandbox) -> Iterator[Saving]:
    """Measure the headers of each source as they are, and with others in the place of those that match."""
    exchanges = [
        exchange
        for one in measured
        if one.invocation.language is rule.language
        for exchange in _exchange(rule, one, place)
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


def _exchange(rule: AdviceRule, one: Measured, place: Sandbox) -> Iterator[tuple[str, float, float, float]]:
    """A source, and what its headers cost before and after a change, and those of a source that takes over."""
    before = one.profile.headers_seconds
    names = _headers(one)
    about = [name for name in names if matches(name, rule.headers) and not matches(name, rule.exceptions)]
    if before is None or not about:
        return
    kept = [name for name in names if name not in about]
    after = place.header_seconds(one.invocation, tuple(dict.fromkeys([*rule.instead, *kept])))
    # A C++ source compiled with a CUDA source's flags: nvcc gives it to the host compiler as it is.
    on_host = replace(one.invocation.without(("-x", "cu")), language=Language.CXX)
    moved = place.header_seconds(on_host, rule.moved) if rule.moved else 0.0
    if after is not None and moved is not None:
        yield one.profile.compile.name, before, after, moved


def _unity(rule: AdviceRule, measured: Sequence[Measured], place: Sandbox) -> Iterator[Saving]:
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
        union = tuple(dict.fromkeys(name for one in members for name in _headers(one)))
        together = place.header_seconds(invocation, union)
        if together is not None:
            text = f"headers of {len(members)} sources take {sum(before):.1f} s one by one, and {together:.1f} s in "
            text += f"each of {files}" if files > 1 else "one file"
            yield Saving(rule, sum(before) - files * together, _names(members), text)


def _single_pass(rule: AdviceRule, measured: Sequence[Measured], place: Sandbox) -> Iterator[Saving]:
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


def _without_flags(rule: AdviceRule, measured: Sequence[Measured], place: Sandbox) -> Iterator[Saving]:
    """Compile the dearest source that has such flags once without them; of others nothing is said."""
    having = [one for one in measured if set(rule.flags) & set(one.invocation.flags)]
    if not having:
        return
    one = max(having, key=lambda m: m.profile.usage.cost)
    compile, before = one.profile.compile, one.profile.usage.cost
    command = one.invocation.without(rule.flags).compiling(compile.path, place.scratch / "object.o")
    finished = place.run(command, f"{compile.name}, {rule.title}", compile.folder)
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


def _headers(one: Measured) -> tuple[str, ...]:
    text = one.profile.text
    return tuple(header.name for header in text.headers) if text else ()


def _names(measured: Iterable[Measured]) -> tuple[str, ...]:
    return tuple(one.profile.compile.name for one in measured)
