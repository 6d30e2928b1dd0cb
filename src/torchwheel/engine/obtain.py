"""The shortest way to a wheel that serves: an official one, one that was built before, or a build."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from torchwheel.engine.build import build_wheel
from torchwheel.engine.wheel_cache import (
    candidates,
    copied,
    difference,
    fetched,
    places,
    refuse_to_replace,
    unfit,
)
from torchwheel.errors import refusal
from torchwheel.plan.make import make_plan
from torchwheel.plan.model import Plan
from torchwheel.preflight import preflighted
from torchwheel.preflight.build_matrix import combination_of_plan
from torchwheel.preflight.checks.published import official_build
from torchwheel.preflight.registry import Context
from torchwheel.preflight.this_machine import gpu_facts
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.pytorch.published import PublishedBuild
from torchwheel.survey import BuildRequest, survey
from torchwheel.wheel.inspection import NamedGpu, inspect, suitability


class Way(Enum):
    """Where a wheel comes from."""

    PUBLISHED = "published"
    BUILT_BEFORE = "built before"
    BUILD = "build"


@dataclass(frozen=True)
class Choice:
    """Which way was chosen, and why.

    Attributes:
        way: where the wheel comes from.
        reasons: why this way, and why not those that are shorter.
        wheel: the wheel that was built before.
        stops: whether a check would stop the build; the reasons say which.
    """

    way: Way
    plan: Plan
    reasons: tuple[str, ...]
    official: PublishedBuild | None = None
    wheel: Path | None = None
    stops: bool = False


def choose(request: BuildRequest, folders: Iterable[Path | str]) -> Choice:
    """The shortest way to what is asked for.

    Args:
        folders: with wheels, and addresses of indexes, that may hold one that was built before; beside ``wheel-cache``.

    Raises:
        TorchwheelError: the request cannot be read.
    """
    plan = make_plan(survey(request))
    # What is requested decides, not the GPU at hand.
    host = replace(gpu_facts(plan, request.environment), gpus=None)
    official = official_build(Context(plan, host, TreeFacts()))
    if official is not None and not official.lacking:
        build = official.build
        why = f"the official {build.label} build of PyTorch {build.torch} serves: {official.how}"
        return Choice(Way.PUBLISHED, plan, (why,), official=build)
    reasons = [
        "no official build is known to run on the target"
        if official is None
        else f"the official {official.build.label} build runs on the target, but lacks {'; '.join(official.lacking)}"
    ]
    for wheel in candidates(plan, (*folders, *places(plan)), request.environment):
        why = difference(plan, wheel)
        if not why:
            reasons.append(f"{wheel.name} was built for this plan before, from this commit")
            return Choice(Way.BUILT_BEFORE, plan, tuple(reasons), wheel=wheel)
        reasons.append(f"{wheel} does not serve: {why}")
    if len(reasons) == 1:
        reasons.append(f"{plan.wheel_name} is in none of the places that were searched")
    plan = preflighted(plan, request.environment)
    reasons += [f"it would stop: {finding.problem.what}" for finding in plan.errors]
    return Choice(Way.BUILD, plan, tuple(reasons), stops=bool(plan.errors))


def carry_out(choice: Choice, request: BuildRequest, output: Path) -> Path:
    """Put the wheel into ``output``.

    Raises:
        TorchwheelError: the wheel cannot be fetched, copied or built, what was built before does not pass the proof, or
            would replace a wheel of another build.
    """
    if choice.way is Way.BUILD:
        return build_wheel(request, output).wheel
    output.mkdir(parents=True, exist_ok=True)
    if choice.official is not None:
        official, plan = choice.official, choice.plan

        def check(wheel: Path) -> None:
            _require(official, plan, wheel)

        return fetched(plan, official.pip_arguments, output, request.environment, check)
    assert choice.wheel is not None
    target = output / choice.wheel.name
    there = choice.wheel.resolve() == target.resolve()
    if not there:
        refuse_to_replace(choice.plan, target)
    if why := (
        unfit(choice.plan, target, None) if there else copied(choice.plan, choice.wheel, output, None)
    ):
        raise refusal(
            id="wheel-not-copied",
            what=f"{choice.wheel} does not serve after all: {why}",
            remedy="remove it, or leave its folder out, and give the command again",
            why="what is handed over is proved as a build would be, and this did not pass",
            origin=str(choice.wheel),
        )
    return target


def _require(official: PublishedBuild, plan: Plan, wheel: Path) -> None:
    """Refuse a wheel that is not the official build, by what is in it: its CUDA, and code for every target GPU."""
    found = inspect(wheel)
    cuda = found.torch.cuda if found.torch else None
    targets = [NamedGpu(gpu.title, gpu.compute_capability) for gpu in combination_of_plan(plan).target_gpus]
    unfit = [gpu.name for gpu in targets if not suitability(found, gpu).how.runs]
    if cuda == official.cuda and not unfit:
        return
    what = f"pip found {wheel.name}, which is for {f'CUDA {cuda}' if cuda else 'the CPU'}"
    raise refusal(
        id="wheel-not-official",
        what=f"{what} and does not run on {', '.join(unfit)}" if unfit else what,
        why=f"the official {official.label} build was to come, and pip's own settings may name other places",
        remedy="look at `pip config list` and PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL; or build it: torchwheel build",
        origin=" ".join(official.pip_arguments),
    )
