"""Choose how many compilers may run at once without running out of memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from torchwheel.reporting.terminal import count_noun, format_gib
from torchwheel.system.toml import shipped_toml

_GIB = 1 << 30
_DATA = Path(__file__).with_name("jobs.toml")


@dataclass(frozen=True)
class Jobs:
    """How many compile jobs run at once; each number is at least 1.

    Attributes:
        flash_attention: compiles of flash attention's kernels, for ``FLASH_ATTENTION_MAX_JOBS``; None without them.
        budget: bytes for all compilers together if each waits for free memory and is watched; None if only
            their number is limited.
    """

    cxx: int
    cuda: int | None
    flash_attention: int | None
    max_jobs: int
    reason: str
    budget: int | None = None
    unwatched: int | None = None


@dataclass(frozen=True)
class JobFigures:
    """The figures of ``jobs.toml``: memory of one job in bytes, parts as fractions of 1."""

    cxx: int
    cuda: int
    attention: int
    attention_several: int
    reserve: int
    reserve_part: float
    reserve_watched: int
    kept_free: int
    pool_part: float
    pool_depth: int


@cache
def job_figures() -> JobFigures:
    data = shipped_toml(_DATA)

    def read_memory(table: str, key: str = "gib") -> int:
        return int(data[table][key] * _GIB)

    return JobFigures(
        cxx=read_memory("cxx"),
        cuda=read_memory("cuda"),
        attention=read_memory("attention"),
        attention_several=read_memory("attention-several"),
        reserve=read_memory("reserve"),
        reserve_part=data["reserve"]["part"],
        reserve_watched=read_memory("reserve", "watched"),
        kept_free=read_memory("kept-free"),
        pool_part=data["attention-pool"]["part"],
        pool_depth=data["attention-pool"]["depth"],
    )


def memory_kinds(architectures: int) -> tuple[tuple[str, int], ...]:
    """Usual memory in bytes of a command, by a regular expression to search in it; the first match wins."""
    data = shipped_toml(_DATA)

    def usual_memory(kind: str) -> int:
        return int(data[kind].get("usual", data[kind]["gib"]) * _GIB)

    several = {"attention": "attention-several"} if architectures > 1 else {}
    kinds = ("archive", "link", "attention", "cutlass", "cuda")
    return (
        *((data[kind]["files"], usual_memory(several.get(kind, kind))) for kind in kinds),
        ("", usual_memory("cxx")),
    )


def jobs_for(
    memory_bytes: int | None,
    cores: int | None,
    *,
    cuda: bool,
    flash_attention: bool,
    architectures: int,
    attention_pool: bool = True,
    requested: int | None = None,
    waiting: bool = False,
) -> Jobs:
    """Choose how many compile jobs run at once.

    Args:
        flash_attention: whether flash attention's kernels are compiled; ignored without ``cuda``.
        attention_pool: whether the tree has a job pool for attention kernels, as PyTorch does since 2.14.
            Without one every job may be such a kernel, and ``max_jobs`` allows for that.
        requested: the user's number, which becomes ``max_jobs`` whatever fits.
        waiting: whether compilers can wait for free memory; then as many as cores may run.
    """
    figures = job_figures()
    attention = cuda and flash_attention
    if memory_bytes is None:
        chosen = _by_cores(cores, cuda, attention, attention_pool, figures)
    else:
        chosen = _by_memory(memory_bytes, cores, cuda, attention, attention_pool, architectures, figures)
    if requested is not None:
        return _as_requested(chosen, requested)
    if waiting and memory_bytes is not None and cores is not None and chosen.max_jobs < cores:
        budget = memory_budget(memory_bytes, figures.reserve_watched)
        part = format_gib(budget)
        text = f"{count_noun(cores, 'core')}; each compiler waits until its part of {part} of memory is free"
        return replace(chosen, max_jobs=cores, reason=text, budget=budget, unwatched=chosen.max_jobs)
    return chosen


def _by_memory(
    memory: int,
    cores: int | None,
    cuda: bool,
    attention: bool,
    attention_pool: bool,
    architectures: int,
    figures: JobFigures,
) -> Jobs:
    budget = memory_budget(memory, figures.reserve)
    kernel = figures.attention_several if architectures > 1 else figures.attention
    ordinary = figures.cuda if cuda else figures.cxx
    pool = None
    if not attention:
        fitting = budget // ordinary
    elif attention_pool:
        pool = _pool_depth(budget, kernel, cores, figures)
        fitting = pool + max(0, budget - pool * kernel) // ordinary
    else:
        pool = fitting = max(1, budget // kernel)
    dearest = kernel if attention else ordinary
    return Jobs(
        cxx=_bound_by_cores(budget // figures.cxx, cores),
        cuda=_bound_by_cores(budget // figures.cuda, cores) if cuda else None,
        flash_attention=None if pool is None else _bound_by_cores(pool, cores),
        max_jobs=_bound_by_cores(fitting, cores),
        reason=_explain_limit(memory, budget, cores, fitting, pool, dearest),
    )


def memory_budget(memory: int, reserve: int) -> int:
    """Memory in bytes for all compilers together; at least ``reserve`` stays free."""
    return max(0, memory - max(reserve, int(memory * job_figures().reserve_part)))


def _pool_depth(budget: int, kernel: int, cores: int | None, figures: JobFigures) -> int:
    """Attention kernels at once, limited by their part of the memory; the usual depth if that fits."""
    share = int(budget * figures.pool_part) // kernel
    return _bound_by_cores(max(share, min(figures.pool_depth, budget // kernel)), cores)


def _by_cores(
    cores: int | None, cuda: bool, attention: bool, attention_pool: bool, figures: JobFigures
) -> Jobs:
    if cores is None:
        one = Jobs(1, 1 if cuda else None, 1 if attention else None, 1, "")
        return replace(one, reason="neither memory nor cores are known, so one job at a time")
    depth = min(figures.pool_depth, cores) if attention else None
    reason = f"{count_noun(cores, 'core')}; the memory is not known"
    if depth is None or attention_pool:
        return Jobs(cores, cores if cuda else None, depth, cores, reason)
    return Jobs(cores, cores, depth, depth, f"{reason}, and any job may be an attention kernel")


def _as_requested(chosen: Jobs, requested: int) -> Jobs:
    pool = chosen.flash_attention
    text = f"{count_noun(requested, 'job')} requested"
    if requested > chosen.max_jobs:
        text += f", though {chosen.reason}"
    return replace(
        chosen,
        flash_attention=None if pool is None else min(pool, requested),
        max_jobs=requested,
        reason=text,
    )


def _bound_by_cores(fitting: int, cores: int | None) -> int:
    return max(1, fitting if cores is None else min(fitting, cores))


def _explain_limit(
    memory: int, budget: int, cores: int | None, fitting: int, pool: int | None, dearest: int
) -> str:
    has = f"{format_gib(memory)} of memory"
    kind = "a compile" if pool is None else "an attention kernel"
    if budget < dearest:
        return f"{has} is little: {kind} alone may take {format_gib(dearest)}"
    if cores is not None and cores <= fitting:
        return f"{count_noun(cores, 'core')}; {has} would be enough for {count_noun(fitting, 'job')}"
    each = f"{kind} takes up to {format_gib(dearest)}"
    if pool is not None and pool < fitting:
        each += f" and {pool} of them run at once"
    return f"{has} is enough for {count_noun(fitting, 'job')}: {each}"
