"""Making the plan of a project's extensions: a pure function of the settings and of what there is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.compile.commands import Commands, Unit
from torchwheel.extension.compile.flags import own_architectures
from torchwheel.extension.compile.paths import SOURCE, TOOLKIT, TORCH, Layout, layout_of
from torchwheel.extension.compile.unity import join_units
from torchwheel.extension.model import (
    Extension,
    ExtensionInputs,
    ExtensionPlan,
    Language,
    PlannedExtension,
    Step,
)
from torchwheel.extension.naming import (
    PythonBuild,
    common_stable_abi,
    extension_label,
    has_limited_api,
    torch_requirements,
)
from torchwheel.extension.plan_findings import plan_findings, wants_limited_api
from torchwheel.extension.sources import has_cuda_sources, language_of, matches, uses_cuda
from torchwheel.extension.stable.stable_abi import target_version_macro
from torchwheel.extension.torch_install.installed_torch import InstalledTorch
from torchwheel.findings import Finding, Severity, error, warning
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.jobs import Jobs, jobs_for
from torchwheel.host.model import Compiler, Host
from torchwheel.settings import Settings
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.model import Toolkit

_DIGITS = 12
_NVCC_THREADS = 4
_SEVERITIES = tuple(Severity)


def make_extension_plan(inputs: ExtensionInputs) -> ExtensionPlan:
    """Decide everything about the build of a project's extensions. Reads nothing but its argument.

    What is wrong is among the plan's findings; a plan with errors has no steps for what they are about.
    """
    cuda = any(uses_cuda(extension) for extension in inputs.extensions)
    toolkit = inputs.toolkit if cuda else None
    # What its stable ABI implies, Python's limited API, wherever Python has one.
    has_one = has_limited_api(inputs.host.python.abi_tag)
    extensions = tuple(
        replace(extension, limited_api=has_one and wants_limited_api(extension))
        for extension in inputs.extensions
    )
    choices = [_choose(extension, inputs) for extension in extensions]
    findings = [*plan_findings(inputs, cuda=cuda), *(f for choice in choices for f in choice.findings)]
    failed = any(finding.severity is Severity.ERROR for finding in findings)
    identity = tools_identity(
        inputs.host,
        inputs.torch,
        inputs.settings.build_type,
        toolkit.identity if toolkit else "",
        [str(choice.architectures) for choice in choices],
    )
    below = f"{inputs.below}-{identity}" if inputs.below else ""
    layout = layout_of(inputs.host.system, str(inputs.project), _folders(inputs, toolkit, below))
    generated: dict[str, str] = {}
    planned: list[PlannedExtension] = []
    cxx = inputs.host.compiler("cxx")
    if cxx is not None and not failed:
        planned = [_planned(choice, inputs, cxx, layout, below, generated) for choice in choices]
    architectures = _union(choice.architectures for choice in choices)
    stable_abi = None if failed else common_stable_abi(extension.stable_abi for extension in extensions)
    release = toolkit.version if toolkit else None
    label = extension_label(release, architectures, inputs.torch.version, stable=stable_abi is not None)
    return ExtensionPlan(
        project=inputs.project,
        settings=inputs.settings,
        torch=inputs.torch,
        toolkit=toolkit,
        toolkit_packages=inputs.toolkit_packages if toolkit is not None else None,
        toolkit_requirements=inputs.toolkit_requirements if cuda else (),
        architectures=architectures,
        extensions=tuple(planned),
        jobs=extension_jobs(inputs.host, inputs.settings, cuda=toolkit is not None),
        identity=identity,
        folder=build_folder(inputs.builds_folder, inputs.project, identity),
        below=below,
        links={name: Path(str(folder)) for name, folder in layout.links.items()},
        generated=generated,
        launcher=inputs.launcher,
        system=inputs.host.system,
        local_version=label if inputs.settings.local_version is None else inputs.settings.local_version,
        requires=torch_requirements(inputs.torch.version, stable_abi),
        toolchain=_toolchain(inputs.host, toolkit),
        findings=tuple(sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity))),
    )


@dataclass(frozen=True)
class _Choice:
    """The architectures of one extension.

    Attributes:
        extension: the extension, without flags for architectures.
        by_source: CUDA source -> what to compile it for.
    """

    extension: Extension
    by_source: Mapping[str, ArchitectureList]
    architectures: ArchitectureList | None
    findings: tuple[Finding, ...] = ()


def _choose(extension: Extension, inputs: ExtensionInputs) -> _Choice:
    """A source's own architectures, else the requested ones, else the project's flags, else PyTorch's own."""
    if not has_cuda_sources(extension):
        return _Choice(extension, {}, None)
    try:
        own = own_architectures(extension.flags.get(Language.CUDA, ()), extension.origin)
    except TorchwheelError as failure:
        return _Choice(extension, {}, None, tuple(error(problem) for problem in failure.problems))
    requested = inputs.settings.arch
    findings: list[Finding] = []
    if own.flags and requested is not None:
        findings.append(warning(_flags_overruled(extension, own.flags, inputs.settings, requested)))
    chosen = requested or own.architectures or extension.default_architectures or _buildable(inputs)
    if chosen is None:
        findings.append(error(_no_architectures(extension, inputs)))
        return _Choice(extension, {}, None, tuple(findings))
    cuda_sources = [source for source in extension.sources if language_of(source) is Language.CUDA]
    by_source = {source: _of_source(extension, source) or chosen for source in cuda_sources}
    cleaned = replace(extension, flags={**extension.flags, Language.CUDA: own.others})
    return _Choice(cleaned, by_source, _union(by_source.values()), tuple(findings))


def _of_source(extension: Extension, source: str) -> ArchitectureList | None:
    own = extension.source_architectures
    return next((one.architectures for one in own if matches(source, one.pattern)), None)


def _buildable(inputs: ExtensionInputs) -> ArchitectureList | None:
    """PyTorch's own architectures, as far as the toolkit compiles for them."""
    own, toolkit = inputs.torch_architectures, inputs.toolkit
    if own is None or toolkit is None:
        return own
    release = toolkits().release(toolkit.version)
    if release is None:
        return own
    kept = [target for target in own.targets if release.compiles(target.architecture)]
    return ArchitectureList.of(kept) if kept else None


def _union(lists: Iterable[ArchitectureList | None]) -> ArchitectureList | None:
    targets = [target for one in lists if one is not None for target in one.targets]
    return ArchitectureList.of(targets) if targets else None


def _planned(
    choice: _Choice,
    inputs: ExtensionInputs,
    cxx: Compiler,
    layout: Layout,
    below: str,
    generated: dict[str, str],
) -> PlannedExtension:
    extension = choice.extension
    commands = Commands(
        extension=extension,
        layout=layout,
        torch=inputs.torch,
        python=inputs.python,
        toolkit=inputs.toolkit if uses_cuda(extension) else None,
        c=inputs.host.compiler("c"),
        cxx=cxx,
        system=inputs.host.system,
        build_type=inputs.settings.build_type,
        variables=inputs.settings.env,
        threads=_threads(inputs.extensions),
        macros=tuple(_abi_macros(extension, inputs.pybind11_macros)),
        below=below,
    )
    units = [_unit(source, choice, layout) for source in extension.sources]
    if extension.unity:
        units, unity_files = join_units(units, commands.folder)
        generated.update(unity_files)
    steps: list[Step] = [commands.compile(unit) for unit in units]
    objects = [step.output for step in steps]
    if (extension.device_link or extension.device_link_libraries) and choice.architectures is not None:
        steps.append(commands.device_link(objects, choice.architectures))
        objects.append(steps[-1].output)
    file_name = _file_name(extension, inputs.python)
    steps.append(commands.link(objects, f"{commands.folder}/{PurePosixPath(file_name).name}"))
    return PlannedExtension(extension, file_name, tuple(steps), choice.architectures, commands.flags())


def _abi_macros(
    extension: Extension, pybind11_macros: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str | None]]:
    if not extension.limited_api:
        yield from pybind11_macros
    if extension.stable_abi is None:
        return
    name, _, value = target_version_macro(extension.stable_abi).partition("=")
    yield name, value
    if uses_cuda(extension):
        # torch/csrc/stable/accelerator.h and c/shim.h show their CUDA parts only then.
        yield "USE_CUDA", None


def _unit(source: str, choice: _Choice, layout: Layout) -> Unit:
    language = language_of(source)
    if language is None:
        raise ValueError(f"{source} has no language; the plan's findings must have said so")
    return Unit(
        path=layout.spell(source),
        name=_object_name(source),
        language=language,
        sources=(source,),
        architectures=choice.by_source.get(source),
    )


def _object_name(source: str) -> str:
    """The object of a source: its whole path, since folders may hold files of one name; ``..`` stays inside."""
    parts = [
        part.replace("..", "up").replace(":", "") for part in PurePosixPath(source.replace("\\", "/")).parts
    ]
    return "/".join(part for part in parts if part.strip("/"))


def _file_name(extension: Extension, python: PythonBuild) -> str:
    suffix = python.limited_suffix if extension.limited_api else python.extension_suffix
    return extension.name.replace(".", "/") + suffix


def _threads(extensions: Sequence[Extension]) -> int:
    """How many architectures nvcc works on at once: more than one where there are few files to share the cores.

    It does not depend on ``jobs``: with others nothing is compiled again, and compiler caches know the commands.
    """
    files = sum(len(extension.sources) for extension in extensions)
    return max(1, _NVCC_THREADS // max(1, files))


def _folders(inputs: ExtensionInputs, toolkit: Toolkit | None, below: str) -> dict[str, str]:
    folders = {SOURCE: str(inputs.project), TORCH: str(inputs.torch.root)}
    if toolkit is not None:
        folders[TOOLKIT] = toolkit.root
    return {str(PurePosixPath(below, name)): folder for name, folder in folders.items()}


def build_folder(builds_folder: Path, project: Path, identity: str) -> Path:
    """A folder for each project and each combination of tools and architectures, so that none undoes another's work."""
    return builds_folder / f"{project.name}-{_digest([str(project), identity])}"


def tools_identity(
    host: Host, torch: InstalledTorch, build_type: str, toolkit: str = "", architectures: Sequence[str] = ()
) -> str:
    """A text that changes with the tools and each extension's architectures, and not with the project's place."""
    return _digest(
        {
            "torch": torch.identity,
            "toolkit": toolkit,
            "compilers": sorted(f"{c.language}:{c.identity}" for c in host.compilers),
            "python": [host.python.interpreter_tag, host.python.abi_tag, host.platform_tag],
            "architectures": list(architectures),
            "build-type": build_type,
        }
    )


def extension_jobs(host: Host, settings: Settings, *, cuda: bool) -> Jobs:
    """How many compilers of extensions run at once."""
    return jobs_for(
        host.memory_bytes,
        host.cores,
        cuda=cuda,
        flash_attention=False,
        architectures=0,
        requested=settings.jobs,
    )


def _toolchain(host: Host, toolkit: Toolkit | None) -> dict[str, str | None]:
    cxx = host.compiler("cxx")
    return {
        "python": host.python.version,
        "cxx_compiler": f"{cxx.kind} {cxx.version}".strip() if cxx else None,
        "cuda": toolkit.full_version if toolkit else None,
    }


def _digest(facts: object) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]


def _flags_overruled(
    extension: Extension, flags: Sequence[str], settings: Settings, requested: ArchitectureList
) -> Problem:
    setting = settings.entries.get("arch") or settings.entries["target"]
    return Problem(
        id="architecture-flags-overruled",
        what=f"extension {extension.name} brings nvcc flags for architectures, which are left out: {' '.join(flags)}",
        why=f"{requested} is asked for ({setting.origin})",
        remedy="none needed; to build what the project says, ask for no target",
        origin=extension.origin,
    )


def _no_architectures(extension: Extension, inputs: ExtensionInputs) -> Problem:
    torch = inputs.torch
    return Problem(
        id="no-target",
        what=f"it is unknown what hardware to build {extension.name} for",
        why=f"no target is named, and the device code of PyTorch {torch.version} in {torch.root} "
        + (
            "is for nothing that the CUDA toolkit compiles" if inputs.torch_architectures else "does not tell"
        ),
        remedy="name a GPU with -C target=rtx5070 or TORCHWHEEL_TARGET=rtx5070, or architectures with "
        "TORCHWHEEL_ARCH=12.0",
        origin=extension.origin,
    )
