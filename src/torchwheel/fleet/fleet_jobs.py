"""The jobs of a fleet: every target on every platform for every Python, each planned like a build there.

A combination that cannot be built is left out and reported; so is one with the same plan as another job.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Protocol

from torchwheel.host.machine import Host
from torchwheel.reporting.errors import Problem, TorchwheelError, refusal, stop_on
from torchwheel.reporting.terminal import fields_of
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.config_settings import ConfigSettings, own_key
from torchwheel.settings.overlays import NO_USER_OVERLAYS
from torchwheel.tree.git import is_checkout
from torchwheel.versions import parse_numbers


@dataclass(frozen=True)
class FleetRequest:
    """The request for a fleet.

    Attributes:
        targets: in the form of ``-C target``: several GPUs in one text are one wheel.
        images: whether jobs on Linux run in an image with CUDA, or directly on their machine.
        torch: the release of PyTorch for extensions; empty for the newest usable one.
    """

    project: Path
    targets: tuple[str, ...]
    platforms: tuple[str, ...]
    pythons: tuple[str, ...]
    images: bool = True
    settings: ConfigSettings = field(default_factory=dict)
    torch: str = ""

    @property
    def root(self) -> Path:
        holders = (folder for folder in (self.project, *self.project.parents) if is_checkout(folder))
        return next(holders, self.project)

    @property
    def place(self) -> str:
        return self.project.relative_to(self.root).as_posix()

    def load_job_settings(self, target: str, host: Host) -> Settings:
        return load_settings(self.project, {**self.settings, "target": target}, {}, host, NO_USER_OVERLAYS)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A planner's decision about a job.

    Attributes:
        cuda_from: ``system`` where the image has it, ``pypi``; empty without CUDA.
        wheel: the planned name of the wheel; empty for an extension, because it depends on the installed PyTorch.
        same: equal for jobs with the same plan.
        needless: the finding that an existing wheel is usable; None if none is known.
    """

    image: str
    cuda: str
    cuda_from: str
    gpus: tuple[str, ...]
    wheel: str
    torch: tuple[str, ...]
    requires: tuple[str, ...]
    same: tuple[object, ...] = field(repr=False, compare=False)
    needless: Problem | None = field(default=None, repr=False, compare=False)


_JOB = (
    "targets", "platform", "python", "image", "cuda", "cuda_from", "gpus", "wheel", "torch", "requires",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Job(Decision):
    """One wheel on one machine.

    Attributes:
        targets: the wheel's targets, as given; it is built for the first, and the plans of the others are the same.
    """

    name: str
    targets: tuple[str, ...]
    platform: str
    python: str

    @property
    def variables(self) -> dict[str, str]:
        return {
            "JOB_ID": self.name,
            "JOB_PYTHON": self.python,
            "JOB_TORCH": "\n".join(self.torch),
            "JOB_REQUIRES": "\n".join(self.requires),
            "JOB_GPUS": " ".join(self.gpus),
            "TORCHWHEEL_TARGET": self.targets[0],
            "TORCHWHEEL_CUDA": self.cuda,
            "TORCHWHEEL_CUDA_FROM": self.cuda_from,
        }

    def document(self) -> dict[str, object]:
        return {"id": self.name, **fields_of(self, *_JOB)}


Combination = tuple[str, str, str]
"""Target, platform and Python."""


@dataclass(frozen=True)
class LeftOut:
    combinations: tuple[Combination, ...]
    problem: Problem

    @property
    def where(self) -> str:
        pythons: dict[tuple[str, str], list[str]] = {}
        for target, platform, python in self.combinations:
            pythons.setdefault((target, platform), []).append(python)
        platforms: dict[tuple[str, str], list[str]] = {}
        for (target, platform), versions in pythons.items():
            platforms.setdefault((target, " and ".join(versions)), []).append(platform)
        targets: dict[tuple[str, str], list[str]] = {}
        for (target, versions_text), tags in platforms.items():
            targets.setdefault((" and ".join(tags), versions_text), []).append(target)
        return "; ".join(f"{' and '.join(t)} on {tags}, Python {v}" for (tags, v), t in targets.items())

    def document(self) -> dict[str, object]:
        names = ("target", "platform", "python")
        return {
            "combinations": [dict(zip(names, one, strict=True)) for one in self.combinations],
            **vars(self.problem),
        }


@dataclass(frozen=True)
class Fleet:
    """The jobs, and the combinations that were left out.

    Attributes:
        needless: combinations with a usable official build; they have jobs, too.
        variables: the environment variables of all jobs: the kind of build, the project's path in the checkout, and
            ``-C``.
    """

    jobs: tuple[Job, ...]
    left_out: tuple[LeftOut, ...]
    variables: Mapping[str, str]
    needless: tuple[LeftOut, ...] = ()

    def documents(self) -> list[dict[str, object]]:
        return [{**job.document(), "variables": {**self.variables, **job.variables}} for job in self.jobs]


class Planner(Protocol):
    """Plans the jobs of one kind of project."""

    @property
    def kind(self) -> str:
        """The kind of build: ``tree``, ``extension`` or ``cmake-extension``, each with its own commands."""

    def decide(self, target: str, platform: str, python: str) -> Decision:
        """Plan the job of a combination."""

    def one_for_all(self) -> bool:
        """Whether the wheel of one Python supports later ones, too."""


def make_fleet(request: FleetRequest, planner: Planner) -> Fleet:
    jobs: dict[tuple[object, ...], Job] = {}
    left: dict[Problem, list[Combination]] = {}
    needless: dict[Problem, list[Combination]] = {}
    one_for_all = planner.one_for_all()
    for platform, target in product(request.platforms, request.targets):
        oldest = ""
        # The oldest first, because its wheel may also be the one for all later Pythons.
        for python in sorted(request.pythons, key=parse_numbers):
            combination = (target, platform, python)
            if oldest and not python.endswith("t"):
                served = Problem.of("wheel-fits-later-pythons", oldest=oldest)
                left.setdefault(served, []).append(combination)
                continue
            try:
                decided = planner.decide(target, platform, python)
            except TorchwheelError as error:
                for problem in error.problems:
                    left.setdefault(problem, []).append(combination)
                continue
            if decided.needless:
                needless.setdefault(decided.needless, []).append(combination)
            # Not for a free-threaded Python, which has another ABI.
            oldest = oldest or (python if one_for_all and not python.endswith("t") else "")
            key = (platform, python, *decided.same)
            if key in jobs:
                left.setdefault(_SAME_PLAN, []).append(combination)
                jobs[key] = replace(jobs[key], targets=(*jobs[key].targets, target))
            else:
                jobs[key] = Job(
                    name=job_name(target, platform, python),
                    targets=(target,),
                    platform=platform,
                    python=python,
                    **vars(decided),
                )
    left_out = _group_problems(left)
    if not jobs:
        raise TorchwheelError(replace(one.problem, origin=one.where) for one in left_out)
    variables = {
        "JOB_KIND": planner.kind,
        "JOB_PROJECT": request.place,
        **_settings_as_variables(request.settings),
    }
    fleet = Fleet(_with_unique_names(jobs.values()), left_out, variables, _group_problems(needless))
    # GitHub would evaluate expressions in jobs that are pasted into a workflow instead of ``fromJSON``:
    # https://docs.github.com/en/actions/concepts/security/script-injections
    for document in fleet.documents():
        text = json.dumps(document, ensure_ascii=False)
        if "${{" in text:
            raise refusal("expression-in-value", job=document["id"], text=text[text.index("${{") :][:60])
    return fleet


def _group_problems(found: Mapping[Problem, list[Combination]]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(tuple(where), problem) for problem, where in found.items())


def job_name(target: str, platform: str, python: str) -> str:
    """Name a job, ``a100-h100-cp312-linux-x86-64``, validly for services, artifacts and files."""
    tag = f"cp{python.replace('.', '')}"
    return re.sub(r"[^a-z0-9]+", "-", f"{target}-{tag}-{platform}".lower()).strip("-")


def _with_unique_names(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Make the jobs' names unique, because ``a.b`` and ``a-b`` give the same."""
    found: dict[str, Job] = {}
    for job in jobs:
        name, number = job.name, 1
        while name in found:
            number += 1
            name = f"{job.name}-{number}"
        found[name] = replace(job, name=name)
    return tuple(found.values())


def _settings_as_variables(settings: ConfigSettings) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    problems = []
    for name, value in settings.items():
        known = own_key(name)
        words = [str(one) for one in value] if isinstance(value, list) else [str(value)]
        if known is None:
            problems.append(Problem.of("setting-not-for-jobs", origin=f"-C {name}", name=name))
        elif known[1]:
            found.setdefault(known[0].variable, []).append(shlex.quote(f"{known[1]}={words[-1]}"))
        else:
            found[known[0].variable] = [",".join(words)]
    stop_on(problems)
    return {variable: " ".join(words) for variable, words in sorted(found.items())}


_SAME_PLAN = Problem.of("same-plan")
