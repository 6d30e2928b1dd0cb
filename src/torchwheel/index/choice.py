"""Choosing a wheel of a site for a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from torchwheel.hardware.gpu_catalogue import NamedGpu, read_gpus
from torchwheel.index.catalogue import SiteWheel
from torchwheel.reporting.terminal import join_items
from torchwheel.versions import parse_numbers
from torchwheel.wheel.objfile import without_libc


@dataclass(frozen=True)
class Machine:
    """What a wheel is wanted for; the tags that the interpreter takes each have their place in its order."""

    gpus: tuple[NamedGpu, ...]
    python: str
    tags: Mapping[Tag, int]
    takes_cuda: Callable[[str], bool]


@dataclass(frozen=True)
class SiteChoice:
    wheel: SiteWheel | None
    reasons: tuple[str, ...]


def choose_wheel(
    wheels: Iterable[SiteWheel], wanted: Requirement, machine: Machine, *, without_gpu: bool
) -> SiteChoice:
    """Return the newest wheel that runs on all GPUs of a machine, and of several the one that runs best.

    Args:
        without_gpu: whether a wheel without device code may be the last resort; without GPUs it is the only kind.
    """
    named = [wheel for wheel in wheels if wheel.name == canonicalize_name(wanted.name)]
    if not named:
        return SiteChoice(None, (f"no wheel of {wanted.name}",))
    passed_over: dict[str, list[str]] = {}
    able: list[SiteWheel] = []
    for wheel in named:
        if why := _why_refused(wheel, wanted, machine, without_gpu):
            passed_over.setdefault(why, []).append(wheel.file.name)
        else:
            able.append(wheel)
    # As installers do it: a pre-release only where it is asked for, or nothing else fits.
    final = [wheel for wheel in able if not wheel.version.is_prerelease]
    if not wanted.specifier.prereleases and final:
        able = final
    reasons = [f"{why}: {join_items(names, 3)}" for why, names in passed_over.items()]
    if not able:
        return SiteChoice(None, tuple(reasons))
    best = max(able, key=lambda wheel: _rank_wheel(wheel, machine))
    return SiteChoice(best, (_describe_choice(best, machine.gpus), *reasons))


def _why_refused(wheel: SiteWheel, wanted: Requirement, machine: Machine, without_gpu: bool) -> str:
    python = SpecifierSet(wheel.requires_python or "")
    if not wanted.specifier.contains(wheel.version, prereleases=True):
        return f"not {wanted.specifier}"
    if wheel.held:
        return f"held back ({wheel.held})"
    if wheel.tags.isdisjoint(machine.tags) or not python.contains(machine.python, prereleases=True):
        return "for other Pythons or platforms"
    if not machine.gpus:
        return "for GPUs" if wheel.code or wheel.cuda else ""
    if not wheel.code:
        return "" if without_gpu else "for the CPU"
    platforms = {without_libc(tag.platform) for tag in wheel.tags}
    if elsewhere := [gpu.name for gpu in machine.gpus if read_gpus().find_elsewhere(gpu.name, platforms)]:
        return f"not for machines with {join_items(elsewhere)}"
    if lacking := [gpu.name for gpu in machine.gpus if not wheel.verdict_on(gpu.compute_capability).how.runs]:
        return f"does not run on {join_items(lacking)}"
    return "" if wheel.cuda is None or machine.takes_cuda(wheel.cuda) else "for a newer driver"


def _rank_wheel(wheel: SiteWheel, machine: Machine) -> tuple[object, ...]:
    """The greater, the better: by the GPU that it runs worst on."""
    on_gpus = [wheel.verdict_on(gpu.compute_capability) for gpu in machine.gpus] if wheel.code else []
    # Of code for two earlier minor revisions, that for the later one: 120 of sm_120a.
    numbers = [int("".join(filter(str.isdigit, one.image or "")) or 0) for one in on_gpus]
    ranks = (-one.how.rank for one in on_gpus)
    how = min(zip(ranks, numbers, strict=True), default=(0, 0))
    tag = min(machine.tags[tag] for tag in wheel.tags & machine.tags.keys())
    torch = parse_numbers(wheel.label.partition("torch")[2])
    version = Version(wheel.version.public)
    return bool(wheel.code), version, how, parse_numbers(wheel.cuda or ""), torch, -tag


def _describe_choice(wheel: SiteWheel, gpus: Sequence[NamedGpu]) -> str:
    if wheel.code:
        return "; ".join(f"{gpu.name}: {wheel.verdict_on(gpu.compute_capability).sentence}" for gpu in gpus)
    return "no wheel has device code for the GPU, and this one needs none" if gpus else "it needs no GPU"
