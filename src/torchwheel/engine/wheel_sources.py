"""Get a wheel: official, already built, or built now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from torchwheel.engine.build import build_wheel
from torchwheel.engine.ready_wheels import candidate_wheels, fetch_wheel
from torchwheel.engine.tree_wheel import describe_difference, expected_wheel, refuse_to_replace
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.preflight.checks.published import describe_own, last_official_build, official_build
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.registry import CHECKS, Context, Violation, read_rules, target_gpus
from torchwheel.preflight.report import run_preflight
from torchwheel.preflight.this_machine import ask_driver, ask_together
from torchwheel.pytorch.releases import PublishedBuild
from torchwheel.reporting.errors import TorchwheelError, refusal, stop_on_errors
from torchwheel.survey import BuildRequest, survey
from torchwheel.system.files import atomic_copy, cannot_write, disk_is_full, folder_beside, hand_over
from torchwheel.system.paths import is_file
from torchwheel.wheel.archive import find_altered, open_wheel
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.inspection import inspect, judge_suitability
from torchwheel.wheel.manifest import read_manifest
from torchwheel.wheel.proof import verify_wheel

_ELSEWHERE = "gpu-not-on-platform"


class Way(Enum):
    """The source of a wheel."""

    PUBLISHED = "published"
    BUILT_BEFORE = "built before"
    BUILD = "build"


@dataclass(frozen=True)
class ChosenSource:
    """The chosen source of a wheel, with the reasons; ``stops`` if a check would stop the build, as the reasons say."""

    way: Way
    plan: Plan
    reasons: tuple[str, ...]
    official: PublishedBuild | None = None
    wheel: Path | None = None
    stops: bool = False


def choose_way(request: BuildRequest, folders: Iterable[Path | str]) -> ChosenSource:
    """Search the wheel store, the folders and sites, and the official index; otherwise choose a build."""
    plan = make_plan(survey(request))
    # The wheel store is used before a build's own checks.
    stopping = [finding for finding in plan.findings if finding.id == "cache-not-private"]
    if isinstance(elsewhere := CHECKS[_ELSEWHERE](Context(plan, HostFacts(plan.host))), Violation):
        stopping.append(read_rules()[_ELSEWHERE].finding(elsewhere))
    stop_on_errors(stopping, plan.settings.skip_check)
    reasons = []
    for wheel in candidate_wheels(plan, folders):
        why = describe_difference(plan, wheel)
        if not why:
            reasons.append(f"{wheel.name} was built for this plan before, from this commit")
            return ChosenSource(Way.BUILT_BEFORE, plan, tuple(reasons), wheel=wheel)
        reasons.append(f"{wheel} does not fit: {why}")
    if not reasons:
        reasons.append(f"{plan.wheel_name} was not found")
    # The request decides, not this machine's GPU.
    answers, _ = ask_together({"driver": partial(ask_driver, request.environment)} if plan.host.here else {})
    context = Context(plan, HostFacts(plan.host, driver=answers.get("driver")))
    official = official_build(context)
    if official is None:
        last = last_official_build(context)
        said = f"; the last one was PyTorch {last.build.torch} ({last.build.label})" if last else ""
        reasons.append(f"no official build is known to run on the target{said}")
    elif lacking := "; ".join(describe_own(plan, official.build)):
        reasons.append(f"the official {official.build.label} build runs on the target, but lacks {lacking}")
    else:
        build = official.build
        reasons.append(f"the official {build.label} build of PyTorch {build.torch} fits: {official.sentence}")
        return ChosenSource(Way.PUBLISHED, plan, tuple(reasons), official=build)
    errors = run_preflight(plan, request.environment).errors
    reasons += [f"it would stop: {finding.problem.what}" for finding in errors]
    return ChosenSource(Way.BUILD, plan, tuple(reasons), stops=bool(errors))


def carry_out(choice: ChosenSource, request: BuildRequest, output: Path) -> Path:
    if choice.way is Way.BUILD:
        return build_wheel(request, output).wheel
    output.mkdir(parents=True, exist_ok=True)
    if choice.official is not None:
        official, plan = choice.official, choice.plan

        def check(wheel: Path) -> None:
            _require_official(official, plan, wheel)
            _refuse_to_replace_own(output / wheel.name)

        return fetch_wheel(plan.folders.cache, official.pip_arguments, output, request.environment, check)
    assert choice.wheel is not None
    target = output / choice.wheel.name
    there = choice.wheel.resolve() == target.resolve()
    if not there:
        refuse_to_replace(choice.plan, target)
    if why := (
        _find_misfit(choice.plan, target) if there else _copy_proved(choice.plan, choice.wheel, output)
    ):
        raise refusal("wheel-not-copied", origin=choice.wheel, wheel=choice.wheel, reason=why)
    return target


def _refuse_to_replace_own(wheel: Path) -> None:
    """Refuse to replace a wheel built by torchwheel that has the official one's name, because its label was omitted."""
    try:
        built_here = is_file(wheel) and read_manifest(wheel) is not None
    except (TorchwheelError, OSError):
        built_here = False
    if built_here:
        raise refusal("output-of-another-build/official", wheel=wheel)


def _copy_proved(plan: Plan, wheel: Path, folder: Path) -> str:
    """Copy a wheel of a plan into a folder, verified before it gets its name; returns why it was not, if so."""
    target = folder / wheel.name
    try:
        # Verify the copy, because the original may be replaced meanwhile, and a network may truncate it.
        with folder_beside(target) as beside:
            copy = beside / wheel.name
            atomic_copy(wheel, copy)
            if why := describe_difference(plan, copy) or _find_misfit(plan, copy):
                return why
            hand_over(copy, target)
    except OSError as error:
        if disk_is_full(error):
            raise TorchwheelError(cannot_write(target, error)) from error
        return str(error)
    return ""


def _find_misfit(plan: Plan, wheel: Path) -> str:
    """Describe why a wheel fails the verification of a plan's build; empty if it passes."""
    try:
        problems = [*verify_wheel(inspect_wheel(wheel), expected_wheel(plan, None, editable=False))]
        with open_wheel(wheel) as archive:
            problems += find_altered(archive)
    except TorchwheelError as error:
        problems = list(error.problems)
    except OSError as error:
        return str(error)
    return problems[0].what if problems else ""


def _require_official(official: PublishedBuild, plan: Plan, wheel: Path) -> None:
    """Refuse a wheel whose content is not the official build's: its CUDA, and code for every target GPU."""
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
    targets = [NamedGpu(gpu.title, gpu.compute_capability) for gpu in target_gpus(plan)]
    unfit = [gpu.name for gpu in targets if not judge_suitability(found, gpu, all_needed=True).how.runs]
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
