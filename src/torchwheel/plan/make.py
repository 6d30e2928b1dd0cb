"""Make the plan: a pure function of the request and the survey."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compiler_cache import is_plain
from torchwheel.host.jobs import Jobs, jobs_for
from torchwheel.host.machine import Host
from torchwheel.plan.build_plan import (
    BuildFolders,
    Define,
    Plan,
    Variable,
    hash_facts,
    is_relevant,
)
from torchwheel.plan.defines import (
    ATTENTION_POOL,
    INCLUDE_BEFORE,
    BackendSettings,
    backend_settings,
    build_requirements,
    cache_findings,
    define_findings,
    defines_for,
    forwarding_rules,
    launcher_defines,
    requested_settings,
    switched_off,
)
from torchwheel.plan.environment import (
    cuda_variables,
    option_variables,
    variable_findings,
    variables_for,
    with_folders,
)
from torchwheel.plan.naming import name_wheel
from torchwheel.plan.request_checks import architecture_findings, moved_cache, request_findings, shared_cache
from torchwheel.settings import Layer, Settings
from torchwheel.settings.value_types import same_path
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.needs import TreeNeeds
from torchwheel.toolkit.select import Candidates, select_toolkit
from torchwheel.tree.source_tree import Generation, Tree

# scikit-build-core's settings that affect CMake's configure step.
_CONFIGURING = ("cmake.args", "cmake.python-hints", "cmake.source-dir", "cmake.toolchain-file")


@dataclass(frozen=True)
class Inputs:
    """The inputs of a plan.

    Attributes:
        cache_writers: who else can write to that folder or to the configured folder of builds; empty for nobody.
        python_identity: the interpreter's identity in the fingerprint; empty for its path.
    """

    settings: Settings
    tree: Tree
    host: Host
    toolkits: Candidates
    cache: Path
    environment: Path | None
    python_executable: str
    python_identity: str = ""
    asked_cache: Path | None = None
    cache_writers: str = ""
    in_place: bool = False
    compiler_cache: str | None = None
    reproducible: bool = False


def make_plan(inputs: Inputs) -> Plan:
    """Make the plan from its inputs alone. Never raises for a bad request: problems are the plan's findings."""
    settings, tree, host = inputs.settings, inputs.tree, inputs.host
    ways = forwarding_rules(tree.generation)
    architectures = None if settings.is_cpu else settings.arch
    selection = None
    if architectures is not None:
        needs = TreeNeeds(settings, host, architectures.architectures, tree)
        selection = select_toolkit(needs, inputs.toolkits)
    toolkit = selection.toolkit if selection is not None else None
    cuda = cuda_variables(settings, selection, inputs.cache)
    named = name_wheel(settings, tree, host, toolkit.version if toolkit else None, architectures)
    jobs = _choose_jobs(settings, tree, host, architectures)
    # Without launchers: a build has one folder, whatever the compiler cache.
    of_cuda = cuda.defines() if cuda is not None else ()
    defines = defines_for(settings, tree, architectures, of_cuda, jobs, inputs.python_executable)
    variables = variables_for(settings, host, ways, defines, cuda, named.version, jobs)
    requested = requested_settings(settings)
    identity = compute_fingerprint(inputs, toolkit, requested, defines, variables)
    folders = _choose_folders(inputs, named.hardware, identity)
    cache = None if switched_off(settings) else inputs.compiler_cache
    launchers = launcher_defines(settings, tree, host, cache, defines, cuda=architectures is not None)
    defines = tuple(sorted({d.name: d for d in (*defines, *launchers)}.values(), key=lambda d: d.name))
    variables = (*variables, *option_variables(ways, launchers))
    # The tree's own backend passes these to CMake itself.
    forwarded = [
        d
        for d in defines
        if d.name != "CMAKE_BUILD_TYPE"
        and not (d.name == "Python_EXECUTABLE" and same_path(d.value, inputs.python_executable))
    ]
    # sccache before 0.19 would misread the flag's path as part of the command. Without a cache as with ccache, because
    # one may be installed later, unless a debugger is to find the sources.
    mapped = cache == "ccache" or (cache is None and not settings.debug_information)
    plain = mapped and is_plain(f"{folders.cache}{folders.root}{folders.source}")
    maps_paths = host.system != "Windows" and (inputs.reproducible or plain)
    findings = (
        *request_findings(settings, tree, host, ways),
        *moved_cache(inputs.asked_cache or inputs.cache, inputs.cache),
        *shared_cache(inputs.cache_writers),
        *(architecture_findings(settings, tree, architectures) if architectures is not None else ()),
        *(selection.findings if selection is not None else ()),
        *(cuda.findings() if cuda is not None else ()),
        *named.findings,
        *cache_findings(settings, host, inputs.compiler_cache),
        *define_findings(settings, tree, ways, defines),
        *variable_findings(settings, variables),
    )
    return Plan(
        tree=tree,
        settings=settings,
        host=host,
        toolkit=toolkit,
        architectures=architectures,
        version=named.version,
        wheel_name=named.file,
        # Not to be checked afterwards, because torchwheel sets it itself.
        defines=tuple(replace(d, expected=False) if d.name == INCLUDE_BEFORE else d for d in defines),
        variables=with_folders(
            variables,
            settings,
            host,
            folders,
            cache,
            # The user's own option is exported as well, and PyTorch's CMake files prefer the variable to -D.
            included=not ways.defines or INCLUDE_BEFORE in settings.defines,
            maps_paths=inputs.reproducible and maps_paths and tree.generation is Generation.SETUP_PY,
        ),
        file_options=frozenset(
            d.name for d in forwarded if not (ways.defines or ways.by_environment(d.name))
        ),
        maps_paths=maps_paths,
        build_requires=build_requirements(tree, settings),
        toolkit_requires=selection.requirements if selection is not None else (),
        toolkit_packages=selection.site_packages if selection is not None else None,
        inner_config_settings=backend_settings(requested, settings.build_type, ways, forwarded, folders),
        python_executable=inputs.python_executable,
        jobs=jobs,
        fingerprint=identity,
        folders=folders,
        findings=tuple(sorted(findings, key=lambda finding: finding.severity.rank)),
        compiler_cache=cache,
        reproducible=inputs.reproducible,
    )


def compute_fingerprint(
    inputs: Inputs,
    toolkit: Toolkit | None,
    requested: BackendSettings,
    defines: Iterable[Define],
    variables: Iterable[Variable],
) -> str:
    """12 hexadecimal digits over everything that requires a separate build directory.

    That is: the tree (not its content, because a changed file is just compiled again), the options (without
    torchwheel's launchers of a compiler cache), the requested variables (all others follow from the rest), the
    identity of the compilers and of nvcc, and Python's ABI; not the wheel's version and the number of jobs.
    """
    tree, host, python = inputs.tree, inputs.host, inputs.host.python
    interpreter = inputs.python_identity or inputs.python_executable
    asked = {name for name in inputs.settings.env if is_relevant(name)}
    facts: dict[str, object] = {
        "tree": [tree.identity, tree.generation.value],
        "defines": {
            d.name: d.value
            for d in defines
            if is_relevant(d.name)
            # One folder serves every compiler cache.
            and d.name != "USE_CCACHE"
            # torchwheel's own interpreter may lie elsewhere when the environment is created again.
            and not (d.name == "Python_EXECUTABLE" and d.layer is Layer.DEFAULT)
        },
        "environment": {v.name: v.value for v in variables if v.name in asked},
        "arguments": [requested.get(key) for key in _CONFIGURING],
        "compilers": sorted(f"{c.language}:{c.identity}" for c in host.compilers),
        "toolkit": toolkit.identity if toolkit else "",
        "python": [interpreter, python.interpreter_tag, python.abi_tag, host.platform_tag],
    }
    # CMake configures a build directory for one path of the sources, and a tree built in place has others.
    if inputs.in_place:
        facts["in place"] = True
    if inputs.reproducible:
        facts["reproducible"] = True
    return hash_facts(facts)


def _choose_jobs(settings: Settings, tree: Tree, host: Host, architectures: ArchitectureList | None) -> Jobs:
    option = "USE_FLASH_ATTENTION"
    setting = settings.defines.get(option)
    wanted = option in tree.known_names and not (setting is not None and setting.off)
    return jobs_for(
        memory_bytes=host.memory_bytes,
        cores=host.cores,
        cuda=architectures is not None,
        flash_attention=wanted,
        architectures=len(architectures.architectures) if architectures else 0,
        attention_pool=ATTENTION_POOL in tree.known_names,
        requested=settings.jobs,
        waiting=host.system == "Linux",
    )


def _choose_folders(inputs: Inputs, label: str, identity: str) -> BuildFolders:
    """Choose the build's folders; each fingerprint of a tree has its own."""
    name = "-".join(filter(None, (inputs.tree.name, label, identity)))
    build_dir = inputs.settings.build_dir
    root = Path(build_dir or inputs.cache / "builds", name)
    source = inputs.tree.root if inputs.in_place else root / "source"
    # setup.py supports only one build directory, "build" in the tree.
    build = source / "build" if inputs.tree.generation is Generation.SETUP_PY else root / "build"
    return BuildFolders(inputs.cache, root, source, build, inputs.environment)
