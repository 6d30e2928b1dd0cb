"""The rules, ``rules/*.toml``, the input and the answers of their checks, and the registry of checks by rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from torchwheel.hardware.gpu_catalogue import KnownGpu, read_gpus
from torchwheel.host.machine import Host
from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.facts import HostFacts, ToolkitFacts
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.pytorch.releases import CudaSupport, PytorchRelease, read_releases
from torchwheel.reporting.errors import Finding, Problem, Severity
from torchwheel.settings import Setting
from torchwheel.system.toml import read_toml, shipped_toml
from torchwheel.toolkit.cuda_releases import ToolkitRelease, read_toolkits

FOLDER = Path(__file__).with_name("rules")

# The order of fixing: first whether a build is needed at all, then what everything else depends on.
SUBJECTS = (
    "published", "target", "version", "submodules", "toolkit", "architectures", "host_compiler", "python",
    "build_tools", "components", "libraries", "environment", "disk", "memory", "paths", "stale_cache", "driver",
    "probes",
)  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True)
class Rule:
    """One condition of a build; one without a check explains the plan's finding of that id.

    Attributes:
        gpu: whether it needs the GPUs or their driver, so that its result differs between similar machines.
        saves: what the fault costs without the rule: ``minutes`` or ``hours`` until it shows, or ``the build``, which
            ends well and was in vain; empty for a finding of the plan.
        yields_to: rules whose violation hides this one's, because they name another toolkit for a stronger reason.
    """

    id: str
    subject: str
    severity: Severity
    gpu: bool
    saves: str
    source: str
    yields_to: tuple[str, ...] = ()

    def finding(self, violation: Violation) -> Finding:
        values = {**violation.values, "nearest": violation.nearest}
        return Finding(self.severity, Problem.of(self.id, violation.origin, **values))


def fixing_order(id: str) -> int:
    return list(read_rules()).index(id) if id in read_rules() else len(read_rules())


def is_about_compilers(id: str) -> bool:
    """Whether a rule is about the compilers for the hardware, of which an installed official wheel needs none."""
    return id in read_rules() and read_rules()[id].subject in ("toolkit", "architectures", "host_compiler")


@cache
def read_rules() -> Mapping[str, Rule]:
    found: dict[str, Rule] = {}
    for subject in SUBJECTS:
        for row in read_toml(FOLDER / f"{subject}.toml")["rule"]:
            found[row["id"]] = Rule(
                id=row["id"],
                subject=subject,
                severity=Severity(row["severity"]),
                gpu=row.get("gpu", False),
                saves=row.get("saves", ""),
                source=row.get("source", ""),
                yields_to=tuple(row.get("yields-to", ())),
            )
    return found


def target_gpus(plan: Plan) -> tuple[KnownGpu, ...]:
    found = (read_gpus().find(name) for name in plan.settings.target)
    return tuple(gpu for gpu in found if gpu is not None)


@dataclass(frozen=True)
class Context:
    """One planned build on one machine."""

    plan: Plan
    host: HostFacts
    tree: TreeFacts = field(default_factory=TreeFacts)

    @property
    def machine(self) -> Host:
        return self.host.host

    @property
    def windows(self) -> bool:
        return self.machine.system == "Windows"

    @cached_property
    def variables(self) -> Mapping[str, str]:
        settings = self.plan.settings.variables
        return {**self.host.environment, **{name: str(one.value) for name, one in settings.items()}}

    @cached_property
    def options(self) -> Mapping[str, Setting]:
        return self.plan.settings.defines

    def is_on(self, option: str) -> bool:
        return option in self.options and self.options[option].on

    def is_off(self, option: str) -> bool:
        return option in self.options and self.options[option].off

    @cached_property
    def target_gpus(self) -> tuple[KnownGpu, ...]:
        return target_gpus(self.plan)

    @property
    def gpu_elsewhere(self) -> KnownGpu | None:
        """The first target GPU that no machine of the platform has."""
        tag = self.machine.platform_tag
        return next((gpu for gpu in self.target_gpus if tag not in gpu.platforms), None)

    @cached_property
    def pytorch(self) -> PytorchRelease | None:
        return read_releases().release(self.plan.tree.version_text)

    @cached_property
    def cuda(self) -> ToolkitRelease | None:
        return read_toolkits().release(self.plan.toolkit.version) if self.plan.toolkit else None

    @property
    def compiling_cuda(self) -> tuple[ToolkitRelease, ...]:
        """The CUDA releases that compile all of the architectures, oldest first."""
        code = self.plan.architectures
        return tuple(read_toolkits().compiling_all(code.architectures if code else ()))

    @property
    def accepted_cuda(self) -> tuple[ToolkitRelease, ...]:
        """The compiling releases that PyTorch's release accepts; none if that is unknown."""
        release, compiling = self.pytorch, self.compiling_cuda
        if release is None:
            return ()
        return tuple(one for one in compiling if release.cuda_accepts(one.version) is CudaSupport.ACCEPTED)

    @property
    def toolkit(self) -> ToolkitFacts | None:
        """The facts about the plan's toolkit; None without CUDA or for an assumed toolkit."""
        chosen = self.plan.toolkit
        if chosen is None or self.host.toolkits is None:
            return None
        return next((facts for facts in self.host.toolkits if facts.toolkit.root == chosen.root), None)

    @property
    def managed_environment(self) -> bool:
        """Whether torchwheel installs the build requirements itself."""
        return self.plan.folders.environment is not None

    def requires_package(self, package: str) -> bool:
        """Whether the tree's build requirements name a PyPI package, given in lower case."""
        return package in {Requirement(text).name.lower() for text in self.plan.build_requires}

    def has_identifier(self, *names: str) -> bool:
        """Whether the tree's CMake files use one of these identifiers."""
        return not self.plan.tree.known_names.isdisjoint(names)


@dataclass(frozen=True)
class Violation:
    values: Mapping[str, str] = field(default_factory=dict)
    nearest: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Passed:
    """The rule holds."""


@dataclass(frozen=True)
class Unknown:
    """The rule cannot be judged because ``missing`` is unknown, such as ``the driver``."""

    missing: str


Answer = Violation | Passed | Unknown | None
"""None: the rule does not apply to this build."""

CUDA_RELEASE = "this release of CUDA"
OFFICIAL_INDEX = Unknown("what PyTorch's own index has of this release")


class NotJudged(Exception):
    """A rule cannot be judged because a fact is unknown, or it does not apply to this build."""

    def __init__(self, answer: Unknown | None) -> None:
        self.answer = answer


def known_cuda(context: Context) -> ToolkitRelease:
    """Return the build's CUDA release, or raise NotJudged: rules about CUDA do not apply without it."""
    if context.cuda is None:
        raise NotJudged(None if context.plan.architectures is None else Unknown(CUDA_RELEASE))
    return context.cuda


def known_pytorch(context: Context) -> PytorchRelease:
    """Return the build's PyTorch release, or raise NotJudged: it is not in the tables."""
    return require_known(context.pytorch, "this release of PyTorch")


def require_known(value: T | None, missing: str = "") -> T:
    """Return a value that a rule needs, or raise NotJudged: ``missing`` is unknown or, if empty, it does not apply."""
    if value is None:
        raise NotJudged(Unknown(missing) if missing else None)
    return value


Check = Callable[[Context], Answer]
CHECKS: dict[str, Check] = {}


def checks_machine(rule_id: str) -> Callable[[Check], Check]:
    """Register the check of a rule, given its id."""

    def register(check: Check) -> Check:
        def judge(context: Context) -> Answer:
            try:
                return check(context)
            except NotJudged as reason:
                return reason.answer

        CHECKS[rule_id] = judge
        return check

    return register


def read_traps(kind: str) -> list[Mapping[str, Any]]:
    """Return the faulty releases of a ``compiler``, ``nvcc`` or ``program``: the tables of ``traps.toml``."""
    return list(shipped_toml(Path(__file__).with_name("traps.toml"))[kind])


def is_among(version: str, versions: str) -> bool:
    return SpecifierSet(versions).contains(version, prereleases=True)
