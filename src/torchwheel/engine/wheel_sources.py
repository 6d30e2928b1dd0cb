"""Get a wheel: official, already built, or built now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from torchwheel._files import atomic_copy, cannot_write, disk_is_full, folder_beside, hand_over
from torchwheel.engine.build import build_wheel
from torchwheel.engine.fetch import candidates, fetched
from torchwheel.engine.finalize import expected_wheel
from torchwheel.engine.manifest_match import difference, refuse_to_replace
from torchwheel.errors import TorchwheelError, refusal, stop_on_errors
from torchwheel.plan.make import make_plan
from torchwheel.plan.model import Plan
from torchwheel.preflight import run_preflight
from torchwheel.preflight.build_matrix import combination_of_plan
from torchwheel.preflight.checks.published import last_official_build, official_build
from torchwheel.preflight.registry import Context
from torchwheel.preflight.this_machine import gpu_facts
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.pytorch.published import PublishedBuild
from torchwheel.survey import BuildRequest, survey
from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.inspection import NamedGpu, inspect, suitability
from torchwheel.wheel.manifest import read_manifest
from torchwheel.wheel.record import altered
from torchwheel.wheel.verify import verify_wheel


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
    """Ask the wheel store, the folders and indexes, and the official index; else it is a build.

    Args:
        folders: with wheels, and addresses of indexes, that may hold one that was built before; the wheel store is
            asked first.

    Raises:
        TorchwheelError: the request cannot be read, or others can write to the wheel store.
    """
    plan = make_plan(survey(request))
    # The wheel store is read before a build's own checks.
    private = [finding for finding in plan.findings if finding.id == "cache-not-private"]
    stop_on_errors(private, plan.settings.skip_check)
    reasons = []
    for wheel in candidates(plan, folders, request.environment):
        why = difference(plan, wheel)
        if not why:
            reasons.append(f"{wheel.name} was built for this plan before, from this commit")
            return Choice(Way.BUILT_BEFORE, plan, tuple(reasons), wheel=wheel)
        reasons.append(f"{wheel} does not serve: {why}")
    if not reasons:
        reasons.append(f"{plan.wheel_name} is in none of the places that were searched")
    # What is requested decides, not the GPU at hand.
    host = replace(gpu_facts(plan, request.environment), gpus=None)
    context = Context(plan, host, TreeFacts())
    official = official_build(context)
    if official is None:
        last = last_official_build(context)
        said = f"; the last one was PyTorch {last.build.torch} ({last.build.label})" if last else ""
        reasons.append(f"no official build is known to run on the target{said}")
    elif official.lacking:
        lacking = "; ".join(official.lacking)
        reasons.append(f"the official {official.build.label} build runs on the target, but lacks {lacking}")
    else:
        build = official.build
        reasons.append(f"the official {build.label} build of PyTorch {build.torch} serves: {official.how}")
        return Choice(Way.PUBLISHED, plan, tuple(reasons), official=build)
    errors = run_preflight(plan, request.environment).errors
    reasons += [f"it would stop: {finding.problem.what}" for finding in errors]
    return Choice(Way.BUILD, plan, tuple(reasons), stops=bool(errors))


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
            _refuse_to_replace_own(output / wheel.name)

        return fetched(plan.folders.cache, official.pip_arguments, output, request.environment, check)
    assert choice.wheel is not None
    target = output / choice.wheel.name
    there = choice.wheel.resolve() == target.resolve()
    if not there:
        refuse_to_replace(choice.plan, target)
    if why := (_unfit(choice.plan, target) if there else _copy_proved(choice.plan, choice.wheel, output)):
        raise refusal("wheel-not-copied", origin=choice.wheel, wheel=choice.wheel, reason=why)
    return target


def _refuse_to_replace_own(wheel: Path) -> None:
    """Stop where a wheel that torchwheel built bears the official one's name: a label can be left out."""
    try:
        built_here = wheel.is_file() and read_manifest(wheel) is not None
    except (TorchwheelError, OSError):
        built_here = False
    if built_here:
        raise refusal("output-of-another-build/official", wheel=wheel)


def _copy_proved(plan: Plan, wheel: Path, folder: Path) -> str:
    """Copy a wheel that was built for a plan into a folder; the copy is proved before it gets its name.

    Returns:
        Why it was not copied; empty where it was.

    Raises:
        TorchwheelError: the disk is full.
    """
    target = folder / wheel.name
    try:
        # What lies elsewhere may be replaced between its proof and its copy, and a network may lose the rest of it.
        with folder_beside(target) as beside:
            copy = beside / wheel.name
            atomic_copy(wheel, copy)
            if why := difference(plan, copy) or _unfit(plan, copy):
                return why
            hand_over(copy, target)
    except OSError as error:
        if disk_is_full(error):
            raise TorchwheelError(cannot_write(target, error)) from error
        return str(error)
    return ""


def _unfit(plan: Plan, wheel: Path) -> str:
    """Why a wheel does not pass the proof that a build of the plan would have to pass; empty where it does."""
    try:
        problems = [*verify_wheel(inspect_wheel(wheel), expected_wheel(plan, None, editable=False))]
        with open_wheel(wheel) as archive:
            problems += altered(archive)
    except TorchwheelError as error:
        problems = list(error.problems)
    except OSError as error:
        return str(error)
    return problems[0].what if problems else ""


def _require(official: PublishedBuild, plan: Plan, wheel: Path) -> None:
    """Refuse a wheel that is not the official build, by what is in it: its CUDA, and code for every target GPU."""
    found = inspect(wheel)
    commit, ours = found.torch.git_version if found.torch else None, plan.tree.commit
    if ours and commit and commit != ours:
        raise refusal(
            "wheel-not-official/commit",
            origin=plan.tree.root,
            version=official.torch,
            commit=commit[:12],
            own=ours[:12],
        )
    cuda = found.torch.cuda if found.torch else None
    targets = [NamedGpu(gpu.title, gpu.compute_capability) for gpu in combination_of_plan(plan).target_gpus]
    unfit = [gpu.name for gpu in targets if not suitability(found, gpu).how.runs]
    if cuda == official.cuda and not unfit:
        return
    raise refusal(
        "wheel-not-official/unfit" if unfit else "wheel-not-official",
        origin=" ".join(official.pip_arguments),
        wheel=wheel.name,
        code=f"CUDA {cuda}" if cuda else "the CPU",
        gpus=", ".join(unfit),
        build=official.label,
    )
