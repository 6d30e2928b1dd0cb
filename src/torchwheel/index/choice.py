"""Which of many wheels is the one for a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from torchwheel.hardware.runs_on import HowItRuns, Verdict, judge_code
from torchwheel.index.catalogue import SiteWheel
from torchwheel.reporting.terminal import join_items
from torchwheel.versions import parse_numbers
from torchwheel.wheel.suitability import NamedGpu

_BEST_FIRST = tuple(HowItRuns)


@dataclass(frozen=True)
class Machine:
    """What a wheel is wanted for.

    Attributes:
        tags: the tags that the interpreter takes, each with its place in the order of preference.
        takes_cuda: whether the driver runs programs of a release of CUDA.
    """

    gpus: tuple[NamedGpu, ...]
    python: str
    tags: Mapping[Tag, int]
    takes_cuda: Callable[[str], bool]


@dataclass(frozen=True)
class SiteChoice:
    """A wheel that was chosen, and why."""

    wheel: SiteWheel | None
    reasons: tuple[str, ...]


def choose_wheel(
    wheels: Iterable[SiteWheel], wanted: Requirement, machine: Machine, *, without_gpu: bool
) -> SiteChoice:
    """Return the newest wheel that runs on all GPUs of a machine, and of several the one that runs best.

    Args:
        without_gpu: whether a wheel without device code may be the last resort; it is the only kind for a machine
            without GPUs.
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
    """Why a wheel cannot be the one; empty where it can."""
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
    lacking = [gpu.name for gpu in machine.gpus if not _how_it_runs(wheel, gpu).how.runs]
    if lacking:
        return f"does not run on {join_items(lacking)}"
    return "" if wheel.cuda is None or machine.takes_cuda(wheel.cuda) else "for a newer driver"


def _how_it_runs(wheel: SiteWheel, gpu: NamedGpu) -> Verdict:
    code = wheel.architectures
    return judge_code(code.targets if code else (), gpu.capability)


def _rank_wheel(wheel: SiteWheel, machine: Machine) -> tuple[object, ...]:
    """The greater, the better: by the GPU that it runs worst on."""
    on_gpus = [_how_it_runs(wheel, gpu) for gpu in machine.gpus] if wheel.code else []
    # Of code for two earlier minor revisions, that for the later one.
    how = min(((-_BEST_FIRST.index(one.how), _capability_of(one.image)) for one in on_gpus), default=(0, 0))
    tag = min(machine.tags[tag] for tag in wheel.tags & machine.tags.keys())
    torch = parse_numbers(wheel.label.partition("torch")[2])
    version = Version(wheel.version.public)
    return bool(wheel.code), version, how, parse_numbers(wheel.cuda or ""), torch, -tag


def _capability_of(image: str | None) -> int:
    """120 of ``sm_120a``."""
    return int("".join(filter(str.isdigit, image or "")) or 0)


def _describe_choice(wheel: SiteWheel, gpus: Sequence[NamedGpu]) -> str:
    """How the chosen wheel runs."""
    code = wheel.architectures
    if code is None:
        return (
            "it needs no GPU" if not gpus else "no wheel has device code for the GPU, and this one needs none"
        )
    return "; ".join(f"{gpu.name}: {judge_code(code.targets, gpu.capability).sentence}" for gpu in gpus)
