"""The shortest way to a wheel that serves: an official one, one that was built before, or a build."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from torchwheel._files import atomic_copy
from torchwheel.engine.build import build_wheel
from torchwheel.engine.process import ProcessFailed, run_streaming
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.plan.make import make_plan
from torchwheel.plan.model import Plan
from torchwheel.preflight.build_matrix import combination_of_plan
from torchwheel.preflight.checks.published import official_build
from torchwheel.preflight.context import Context
from torchwheel.preflight.this_machine import gpu_facts
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.pytorch.published import PublishedBuild
from torchwheel.survey import BuildRequest, survey
from torchwheel.wheel.inspection import NamedGpu, inspect, suitability
from torchwheel.wheel.manifest import read_manifest


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
        plan: what a build would do.
        reasons: why this way, and why not those that are shorter.
        official: the official build; None for the other ways.
        wheel: the wheel that was built before.
    """

    way: Way
    plan: Plan
    reasons: tuple[str, ...]
    official: PublishedBuild | None = None
    wheel: Path | None = None


def choose(request: BuildRequest, places: Iterable[Path | str]) -> Choice:
    """The shortest way to what is asked for.

    Args:
        request: what is asked for.
        places: folders with wheels, and addresses of indexes, that may hold one that was built before.

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
    for wheel in _candidates(plan, places, request.environment):
        difference = _difference(plan, wheel)
        if not difference:
            reasons.append(f"{wheel.name} was built for this plan before, from this commit")
            return Choice(Way.BUILT_BEFORE, plan, tuple(reasons), wheel=wheel)
        reasons.append(f"{wheel} does not serve: {difference}")
    if len(reasons) == 1:
        reasons.append(f"{plan.wheel_name} is in none of the places that were searched")
    return Choice(Way.BUILD, plan, tuple(reasons))


def carry_out(choice: Choice, request: BuildRequest, output: Path) -> Path:
    """Put the wheel into ``output``.

    Raises:
        TorchwheelError: the wheel cannot be fetched, copied or built.
    """
    if choice.way is Way.BUILD:
        return build_wheel(request, output).wheel
    output.mkdir(parents=True, exist_ok=True)
    if choice.official is not None:
        return _fetched(
            choice.plan, choice.official.pip_arguments, output, request.environment, choice.official
        )
    assert choice.wheel is not None
    target = output / choice.wheel.name
    if choice.wheel.resolve() != target.resolve():
        atomic_copy(choice.wheel, target)
    return target


def _candidates(plan: Plan, places: Iterable[Path | str], environment: Mapping[str, str]) -> Iterator[Path]:
    for place in places:
        folder = place
        if isinstance(folder, str):
            requirement = f"{plan.distribution}=={plan.version}"
            try:
                yield _fetched(
                    plan, (requirement, "--index-url", folder), plan.folders.cache / "wheels", environment
                )
            except TorchwheelError:
                continue
        elif (folder / plan.wheel_name).is_file():
            yield folder / plan.wheel_name


def _fetched(
    plan: Plan,
    arguments: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    official: PublishedBuild | None = None,
) -> Path:
    """A wheel that pip downloads, without its dependencies.

    Args:
        plan: the plan.
        arguments: what pip takes the wheel by.
        folder: gets the wheel.
        environment: the environment variables.
        official: the build that it must be: find-links and further indexes of pip's own settings have others too.

    Raises:
        TorchwheelError: pip failed, or downloaded something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = plan.folders.cache / "get.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]
    with tempfile.TemporaryDirectory(prefix=".torchwheel-get-", dir=folder) as temporary:
        try:
            run_streaming(
                [*pip, "-d", temporary, *arguments], folder=folder, environment=environment, log=log
            )
        except ProcessFailed as failure:
            raise TorchwheelError(_not_fetched(arguments, failure.log)) from failure
        wheels = list(Path(temporary).glob("*.whl"))
        if len(wheels) != 1:
            raise TorchwheelError(_not_fetched(arguments, log))
        if official is not None:
            _require(official, plan, wheels[0])
        return wheels[0].replace(folder / wheels[0].name)


def _require(official: PublishedBuild, plan: Plan, wheel: Path) -> None:
    """Refuse a wheel that is not the official build, by what is in it: its CUDA, and code for every target GPU."""
    found = inspect(wheel)
    cuda = found.torch.cuda if found.torch else None
    targets = [NamedGpu(gpu.title, gpu.compute_capability) for gpu in combination_of_plan(plan).target_gpus]
    unfit = [gpu.name for gpu in targets if not suitability(found, gpu).how.runs]
    if cuda == official.cuda and not unfit:
        return
    what = f"pip found {wheel.name}, which is for {f'CUDA {cuda}' if cuda else 'the CPU'}"
    raise TorchwheelError(
        Problem(
            id="wheel-not-official",
            what=f"{what} and does not run on {', '.join(unfit)}" if unfit else what,
            why=f"the official {official.label} build was to come, and pip's own settings may name other places",
            remedy="look at `pip config list` and PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL; or build it: torchwheel build",
            origin=" ".join(official.pip_arguments),
        )
    )


def _difference(plan: Plan, wheel: Path) -> str:
    """Why a wheel of the right name is not what the plan would build; empty where it is."""
    try:
        manifest = read_manifest(wheel)
    except TorchwheelError as error:
        return error.problems[0].what
    if manifest is None:
        return "torchwheel did not build it, so nothing is known of its options"
    made: Mapping[str, Any] = manifest["plan"]
    if made.get("fingerprint") != plan.fingerprint and _portable(
        made.get("options", {}).get("requested", {})
    ) != _portable({define.name: define.value for define in plan.defines}):
        return "it was built with other options"
    commit = made["source"]["commit"]
    if plan.tree.commit is None or commit != plan.tree.commit:
        return (
            "it was built from another commit"
            if commit and plan.tree.commit
            else "no commit says that the source is the same"
        )
    if plan.tree.dirty:
        return "this tree has changes that are not committed"
    return ""


def _portable(options: Mapping[str, str]) -> dict[str, str]:
    """Options without those that hold a path of the machine that they were made on."""
    return {name: value for name, value in options.items() if "/" not in value and "\\" not in value}


def _not_fetched(arguments: tuple[str, ...], log: Path) -> Problem:
    return Problem(
        id="wheel-not-fetched",
        what=f"pip could not download {arguments[0]}",
        remedy=f"look into {log}; or build it: torchwheel build",
        origin=" ".join(arguments[1:]),
    )
