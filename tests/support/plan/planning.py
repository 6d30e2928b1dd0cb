"""Plans made of nothing but what a test gives, and how a finding reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchwheel.host.machine import Host, described_host
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import Inputs, make_plan
from torchwheel.reporting.errors import Finding
from torchwheel.settings import load_settings
from torchwheel.toolkit.cuda_toolkit import Toolkit, assumed_toolkit_at
from torchwheel.toolkit.pypi import PackagedToolkit, toolkits_folder
from torchwheel.toolkit.select import Candidates
from torchwheel.tree.source_tree import Tree

GIB = 1 << 30

LINUX = described_host(
    "linux_x86_64",
    python_version="3.11.7",
    python_executable="/usr/bin/python3",
    memory_bytes=64 * GIB,
    cores=16,
)
WINDOWS = described_host("win_amd64", python_version="3.11.9", python_executable=r"C:\Python311\python.exe")


@dataclass(frozen=True)
class Planner:
    """Plans with a tree for Linux; folders for a project, for overlays and for builds are of the test's own."""

    tree: Tree
    folder: Path
    cache: Path

    def inputs(
        self,
        config: Mapping[str, str | list[str] | bool] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        pyproject: str = "",
        tree: Tree | None = None,
        host: Host = LINUX,
        named: Toolkit | None = None,
        toolkits: Sequence[Toolkit] = (),
        packaged: Sequence[PackagedToolkit] = (),
        kept: Path | None = None,
        in_place: bool = False,
        compiler_cache: str | None = None,
        reproducible: bool = False,
    ) -> Inputs:
        project, overlays = self.folder / "projekt ü", self.folder / "overlays"
        project.mkdir(exist_ok=True)
        (project / "pyproject.toml").write_text(pyproject, encoding="utf-8")
        settings = load_settings(project, config or {}, environment or {}, host, overlays)
        if named is None and settings.cuda_path is not None:
            named = assumed_toolkit_at(settings.cuda_path, host.platform_tag)
        return Inputs(
            settings=settings,
            tree=tree or self.tree,
            host=host,
            toolkits=Candidates(named, toolkits, packaged, folder=toolkits_folder(self.cache)),
            cache=self.cache,
            environment=kept,
            python_executable=host.python.executable,
            in_place=in_place,
            compiler_cache=compiler_cache,
            reproducible=reproducible,
        )

    def __call__(self, *arguments: object, **keywords: object) -> Plan:
        return make_plan(self.inputs(*arguments, **keywords))  # type: ignore[arg-type]


def rendered(findings: Iterable[Finding]) -> list[str]:
    """Every finding as a user sees it."""
    return [finding.render() for finding in findings]


def ids(plan: Plan) -> list[str]:
    """The identifiers of a plan's findings, errors first."""
    return [finding.id for finding in plan.findings]


def finding(plan: Plan, identifier: str) -> str:
    """The one finding with that identifier, as a user sees it."""
    (found,) = (f for f in plan.findings if f.id == identifier)
    return found.render()


def options(plan: Plan) -> dict[str, str]:
    """The plan's CMake options."""
    return {define.name: define.value for define in plan.defines}


def variables(plan: Plan) -> dict[str, str]:
    """The plan's environment; ``+`` is what a search path had before."""
    separator = ";" if plan.host.system == "Windows" else ":"
    return {v.name: f"{v.value}{separator}+" if v.prepend else v.value for v in plan.variables}


def toolkit(version: str, root: str = "", nvcc: str | None = "", origin: str = "nvcc on PATH") -> Toolkit:
    """A toolkit on a Linux machine; without ``nvcc`` (None) it has libraries alone."""
    folder = root or f"/usr/local/cuda-{version}"
    return Toolkit(
        root=folder,
        version=version,
        full_version=f"{version}.88",
        nvcc=f"{folder}/bin/nvcc" if nvcc == "" else nvcc,
        include_dirs=(f"{folder}/include",),
        library_dir=f"{folder}/lib64",
        origin=origin,
        identity=f"nvcc {version}",
    )
