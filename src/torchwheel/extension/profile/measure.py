"""Measuring a project: its sources one by one, then their headers, then the changes that might pay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.model import Language
from torchwheel.extension.profile.advice import find_savings
from torchwheel.extension.profile.compiling import Measured, measure_compile
from torchwheel.extension.profile.header_names import least_part
from torchwheel.extension.profile.model import Compiles, HeaderCost, Profile, SourceProfile
from torchwheel.extension.profile.rules import shipped_rules
from torchwheel.extension.profile.sandbox import Say, Workplace, workplace
from torchwheel.host.jobs import job_figures


def measure_project(
    compiles: Compiles,
    environment: Mapping[str, str],
    *,
    memory_bytes: int | None,
    cores: int | None,
    say: Say,
) -> Profile:
    """Compile every source once more and measure it.

    One compiler runs at a time; nothing is written into the project or its build folder.

    Args:
        compiles: what to compile.
        environment: for the compilers.
        memory_bytes: memory that a build may use; None if unknown.
        cores: cores that a build may use; None if unknown.
        say: is told what is being measured.

    Raises:
        TorchwheelError: sources do not compile; all of them are in it.
    """
    with workplace(compiles, environment, say) as place:
        results = [measure_compile(compile, compiles, place) for compile in compiles.compiles]
        problems = [result for result in results if isinstance(result, Problem)]
        if problems:
            raise TorchwheelError(problems)
        measured = [result for result in results if isinstance(result, Measured)]
        measured.sort(key=lambda one: -one.profile.usage.cost)
        headers = _header_costs(measured, place)
        savings = find_savings(measured, shipped_rules(), place, compiles.jobs)
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


def _header_costs(measured: Sequence[Measured], place: Workplace) -> tuple[HeaderCost, ...]:
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
            seconds=place.header_seconds(having[0].invocation, (name,)),
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
    figures = job_figures()
    budget = memory_bytes - max(figures.reserve, int(memory_bytes * figures.reserve_part))
    return max(1, min(cores, budget // max(peaks)))
