"""The jobs of a fleet: every target on every platform for every Python, each planned like a build there."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count, product

from torchwheel.fleet.planners import Decision, FleetRequest, planner_for
from torchwheel.reporting.errors import Problem, TorchwheelError, refusal, stop_on
from torchwheel.reporting.terminal import fields_of
from torchwheel.settings.config_settings import ConfigSettings, own_key
from torchwheel.versions import cpython_abi, parse_numbers

_JOB = (
    "targets", "platform", "python", "image", "cuda", "cuda_from", "gpus", "wheel", "torch", "requires",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Job(Decision):
    """One wheel on one machine: it is built for the first target, and the plans of the others are the same."""

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


Combination = tuple[str, str, str]  # target, platform and Python


@dataclass(frozen=True)
class LeftOut:
    combinations: tuple[Combination, ...]
    problem: Problem

    @property
    def where(self) -> str:
        pythons = _joined(((target, platform), python) for target, platform, python in self.combinations)
        platforms = _joined(((target, versions), platform) for (target, platform), versions in pythons)
        targets = _joined(((tags, versions), target) for (target, versions), tags in platforms)
        return "; ".join(f"{names} on {tags}, Python {versions}" for (tags, versions), names in targets)

    def document(self) -> dict[str, object]:
        names = ("target", "platform", "python")
        return {
            "combinations": [dict(zip(names, one, strict=True)) for one in self.combinations],
            **vars(self.problem),
        }


def _joined(rows: Iterable[tuple[tuple[str, str], str]]) -> Iterable[tuple[tuple[str, str], str]]:
    groups: dict[tuple[str, str], list[str]] = {}
    for key, text in rows:
        groups.setdefault(key, []).append(text)
    return [(key, " and ".join(texts)) for key, texts in groups.items()]


@dataclass(frozen=True)
class Fleet:
    """The jobs, and the combinations that were left out; those with a usable official build have jobs, too."""

    jobs: tuple[Job, ...]
    left_out: tuple[LeftOut, ...]
    variables: Mapping[str, str]
    needless: tuple[LeftOut, ...] = ()

    def documents(self) -> list[dict[str, object]]:
        return [{**job.document(), "variables": {**self.variables, **job.variables}} for job in self.jobs]


def make_fleet(request: FleetRequest) -> Fleet:
    """Plan every combination; one that cannot be built is left out, as is one with the same plan as another job."""
    jobs: dict[tuple[object, ...], Job] = {}
    left: dict[Problem, list[Combination]] = defaultdict(list)
    needless: dict[Problem, list[Combination]] = defaultdict(list)
    planner = planner_for(request)
    one_for_all = planner.one_for_all()
    for platform, target in product(request.platforms, request.targets):
        oldest = ""
        # The oldest first, because its wheel may also be the one for all later Pythons.
        for python in sorted(request.pythons, key=parse_numbers):
            combination = (target, platform, python)
            if oldest and not python.endswith("t"):
                left[Problem.of("wheel-fits-later-pythons", oldest=oldest)].append(combination)
                continue
            try:
                decided = planner.decide(target, platform, python)
            except TorchwheelError as error:
                for problem in error.problems:
                    left[problem].append(combination)
                continue
            if decided.needless:
                needless[decided.needless].append(combination)
            # Not for a free-threaded Python, which has another ABI.
            oldest = oldest or (python if one_for_all and not python.endswith("t") else "")
            key = (platform, python, *decided.same)
            if key in jobs:
                left[Problem.of("same-plan")].append(combination)
                jobs[key] = replace(jobs[key], targets=(*jobs[key].targets, target))
            else:
                own = {"platform": platform, "python": python, **vars(decided)}
                jobs[key] = Job(name=job_name(target, platform, python), targets=(target,), **own)
    left_out = _group_problems(left)
    if not jobs:
        raise TorchwheelError(replace(one.problem, origin=one.where) for one in left_out)
    given = _settings_as_variables(request.settings)
    variables = {"JOB_KIND": planner.kind, "JOB_PROJECT": request.place, **given}
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
    words = f"{target}-{cpython_abi(python)}-{platform}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _with_unique_names(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Make the jobs' names unique, because ``a.b`` and ``a-b`` give the same."""
    found: dict[str, Job] = {}
    for job in jobs:
        numbered = (f"{job.name}-{number}" for number in count(2))
        name = next(name for name in chain([job.name], numbered) if name not in found)
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
