"""Making the plan: a pure function of what was asked for and what there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchwheel.errors import Problem
from torchwheel.findings import Finding, Severity, error
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.jobs import Jobs, jobs_for
from torchwheel.host.model import Host
from torchwheel.plan.cuda import ToolkitChoice, choose_toolkit
from torchwheel.plan.fingerprint import fingerprint
from torchwheel.plan.forwarding import Forwarding, forwarding
from torchwheel.plan.model import BuildFolders, Define, Plan, Variable
from torchwheel.plan.options import defines_for
from torchwheel.plan.variables import variables_for
from torchwheel.plan.version import hardware_label, wheel_version
from torchwheel.settings import Layer, Settings
from torchwheel.toolkit.model import Toolkit
from torchwheel.tree.model import Generation, Tree

INCLUDE_BEFORE = "CMAKE_PROJECT_INCLUDE_BEFORE"
"""CMake includes the file of this name before ``project()`` (cmake-variables(7))."""

_SET_BY_THE_BACKEND = frozenset({"CMAKE_BUILD_TYPE", "Python_EXECUTABLE"})
"""Options that the tree's own backend passes to CMake itself."""

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True)
class Inputs:
    """Everything a plan is made from.

    Attributes:
        settings: what was asked for.
        tree: the source tree.
        host: the machine that the plan is for.
        named_toolkit: the toolkit at ``cuda-path``, if that is set.
        toolkits: the CUDA toolkits on the machine, best first.
        cache: the folder that builds are kept in.
        environment: the folder of the environment that build requirements are kept in, or None if the
            current environment serves.
        python_executable: the interpreter that runs the inner build.
        in_place: build in the user's own tree, not in a copy.
    """

    settings: Settings
    tree: Tree
    host: Host
    named_toolkit: Toolkit | None
    toolkits: Sequence[Toolkit]
    cache: Path
    environment: Path | None
    python_executable: str
    in_place: bool = False


def make_plan(inputs: Inputs) -> Plan:
    """Decide everything about a build. Reads nothing but its argument, and never raises for a bad request:
    what is wrong is among the plan's findings."""
    settings, tree, host = inputs.settings, inputs.tree, inputs.host
    findings: list[Finding] = [*_target_findings(settings), *_tree_findings(tree)]
    architectures = None if settings.is_cpu else settings.architectures
    choice: ToolkitChoice | None = None
    if architectures is not None:
        choice = choose_toolkit(settings, architectures, host, inputs.named_toolkit, inputs.toolkits)
        findings += choice.findings
    toolkit = choice.toolkit if choice else None
    label = hardware_label(toolkit.version if toolkit else None, architectures)
    version, version_findings = wheel_version(tree, settings.version, settings.local_version, label)
    jobs = _jobs(settings, host, architectures)
    defines, define_findings = defines_for(
        settings, host, tree, architectures, choice, inputs.python_executable
    )
    ways = forwarding(tree.generation)
    variables = variables_for(settings, host, ways, defines, choice, version, jobs)
    identity = fingerprint(tree, host, toolkit, defines, variables)
    folders = _folders(inputs, identity, version.local)
    findings += [*version_findings, *define_findings]
    filed = frozenset(d.name for d in defines if ways.by_file(d.name)) - _SET_BY_THE_BACKEND
    return Plan(
        tree=tree,
        settings=settings,
        host=host,
        toolkit=toolkit,
        architectures=architectures,
        version=version,
        wheel_name=_wheel_name(tree, str(version), host),
        defines=defines,
        variables=_placed(variables, folders, bool(filed)),
        filed_defines=filed,
        build_requires=tree.requires,
        inner_config_settings=_inner_config_settings(settings, ways, defines, tree, folders),
        python_executable=inputs.python_executable,
        jobs=jobs,
        fingerprint=identity,
        folders=folders,
        findings=tuple(sorted(findings, key=lambda f: _ORDER[f.severity])),
    )


def _target_findings(settings: Settings) -> list[Finding]:
    if settings.target_names or settings.arch is not None:
        return []
    return [
        error(
            Problem(
                id="no-target",
                what="no target is named, so it is unknown what hardware to build for",
                remedy="name a GPU with -C target=rtx5070 (the command line: --target rtx5070), or -C target=native "
                "for this machine's, or -C target=cpu; 'torchwheel targets' lists them all",
            )
        )
    ]


def _tree_findings(tree: Tree) -> list[Finding]:
    if not tree.missing_submodules:
        return []
    shown = ", ".join(tree.missing_submodules[:5])
    more = len(tree.missing_submodules) - 5
    return [
        error(
            Problem(
                id="missing-submodules",
                what=f"{len(tree.missing_submodules)} of the tree's submodules are not there: {shown}"
                + (f" and {more} more" if more > 0 else ""),
                why="PyTorch's CMake fetches them only when all are missing; with some missing it fails halfway",
                remedy=f"git -C '{tree.root}' submodule update --init --recursive",
                origin=str(tree.root / ".gitmodules"),
            )
        )
    ]


def _jobs(settings: Settings, host: Host, architectures: ArchitectureList | None) -> Jobs:
    return jobs_for(
        memory_bytes=host.memory_bytes,
        cores=host.cores,
        cuda=architectures is not None,
        flash_attention=architectures is not None and settings.define.get("USE_FLASH_ATTENTION") is not False,
        architectures=len(architectures.architectures) if architectures else 0,
        requested=settings.jobs,
    )


def _folders(inputs: Inputs, identity: str, local: str) -> BuildFolders:
    """Builds of one tree lie in folders of their own, one for each fingerprint."""
    base = Path(inputs.settings.build_dir) if inputs.settings.build_dir else inputs.cache / "builds"
    root = base / f"{inputs.tree.name}-{local or 'plain'}-{identity}"
    source = inputs.tree.root if inputs.in_place else root / "source"
    # setup.py knows only one build directory, "build" in the tree that it builds.
    build = source / "build" if inputs.tree.generation is Generation.SETUP_PY else root / "build"
    return BuildFolders(root=root, source=source, build=build, environment=inputs.environment)


def _placed(variables: tuple[Variable, ...], folders: BuildFolders, filed: bool) -> tuple[Variable, ...]:
    """The variables, with those that name the build's own folders."""
    cache_hits = "compiler cache hits from another folder"
    added = {
        # ccache takes paths below its base as relative, so another build's results serve here too.
        "CCACHE_BASEDIR": (str(folders.root), cache_hits),
        "CCACHE_NOHASHDIR": ("1", cache_hits),
    }
    names = {v.name for v in variables}
    placed = {name: entry for name, entry in added.items() if name not in names}
    if filed:
        placed[INCLUDE_BEFORE] = (str(folders.defines_file), "options that setup.py does not forward")
    kept = [v for v in variables if v.name not in placed]
    more = [
        Variable(n, value, Layer.DEFAULT, origin, identity=False) for n, (value, origin) in placed.items()
    ]
    return tuple(sorted((*kept, *more), key=lambda v: v.name))


def _wheel_name(tree: Tree, version: str, host: Host) -> str:
    python = host.python
    name = tree.name.replace("-", "_").replace(".", "_")
    return f"{name}-{version}-{python.interpreter_tag}-{python.abi_tag}-{host.platform_tag}.whl"


def _inner_config_settings(
    settings: Settings, ways: Forwarding, defines: Sequence[Define], tree: Tree, folders: BuildFolders
) -> dict[str, str | list[str]]:
    """Config settings for the tree's own backend: the user's own for it, then the plan's."""
    inner: dict[str, str | list[str]] = {
        key: value if isinstance(value, (str, list)) else str(value).lower()
        for key, value in settings.passthrough.items()
    }
    if tree.generation is Generation.SETUP_PY:
        return inner
    inner["build-dir"] = str(folders.build)
    inner["cmake.build-type"] = settings.build_type
    if settings.cmake_args:
        inner["cmake.args"] = list(settings.cmake_args)
    for define in defines:
        if define.name not in _SET_BY_THE_BACKEND:
            inner[f"cmake.define.{define.name}"] = define.value
    return inner
