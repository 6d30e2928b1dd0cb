"""What an extension is, what a build of extensions is planned from, and the plan, as frozen values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal

from torchwheel.extension.naming import PythonBuild
from torchwheel.extension.torch_install.installed_torch import InstalledTorch
from torchwheel.findings import Finding, Severity
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.jobs import Jobs
from torchwheel.host.model import Host
from torchwheel.settings import Settings
from torchwheel.toolkit.model import Toolkit

WITH_CUDA = "WITH_CUDA"
"""The macro of an extension some of whose sources are compiled only where there is CUDA, when they are."""


FrontEnd = Literal["separate", "shared"]
FRONT_ENDS: tuple[FrontEnd, ...] = ("separate", "shared")


class Language(Enum):
    """The language of a source file; the value is the name of its flags in ``extra_compile_args``."""

    C = "c"
    CXX = "cxx"
    CUDA = "nvcc"


@dataclass(frozen=True)
class SourceArchitectures:
    """Architectures of those sources that a pattern matches, in place of the extension's own.

    Attributes:
        pattern: a glob relative to the project, as in ``sm90/*.cu``.
    """

    pattern: str
    architectures: ArchitectureList
    origin: str = ""


@dataclass(frozen=True, kw_only=True)
class Extension:
    """One extension module, as its project describes it; paths are relative to the project or absolute.

    A macro without a value has None for it; ``libraries`` have neither prefix nor suffix.

    Attributes:
        runtime_library_dirs: folders that the finished module looks for libraries in (RPATH).
        stable_abi: the oldest PyTorch release it must run with, ``"2.10"``, if it uses the stable ABI alone.
        device_link: whether relocatable device code is linked in a step of its own.
        source_architectures: sources with architectures of their own; the first match counts.
        default_architectures: what to compile for when nobody asks; None for what PyTorch was built for.
        cuda: whether to link CUDA's libraries; None to link them where there are CUDA sources.
        front_end: ``separate``: device code is compiled for each architecture by itself; ``shared``: all machine code
            is made from one intermediate code, that of the oldest architecture.
    """

    name: str
    sources: tuple[str, ...]
    include_dirs: tuple[str, ...] = ()
    library_dirs: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    runtime_library_dirs: tuple[str, ...] = ()
    define_macros: tuple[tuple[str, str | None], ...] = ()
    undef_macros: tuple[str, ...] = ()
    extra_objects: tuple[str, ...] = ()
    flags: Mapping[Language, tuple[str, ...]] = field(default_factory=dict)
    link_flags: tuple[str, ...] = ()
    device_link: bool = False
    device_link_flags: tuple[str, ...] = ()
    device_link_libraries: tuple[str, ...] = ()
    source_architectures: tuple[SourceArchitectures, ...] = ()
    default_architectures: ArchitectureList | None = None
    cuda: bool | None = None
    stable_abi: str | None = None
    limited_api: bool = False
    unity: bool = False
    front_end: FrontEnd = "separate"
    depends: tuple[str, ...] = ()
    origin: str = ""

    @property
    def module(self) -> str:
        """The last part of the name: what Python's import looks for ``PyInit_`` of."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, kw_only=True)
class ExtensionInputs:
    """Everything that the plan of a project's extensions is made from.

    Attributes:
        pybind11_macros: what makes a module's pybind11 find PyTorch's: name and value.
        torch_architectures: what its device code was built for; None for none, or where nobody knows.
        toolkit_packages: the folder of installed packages that it must be assembled of; None for one that is there.
        compiler_versions: path of a compiler -> version.
        launcher: the compiler cache's program, or nothing.
        below: the folder in the build folder that everything lies in, to whose name the plan adds its identity; empty
            for the build folder itself.
    """

    project: Path
    settings: Settings
    host: Host
    python: PythonBuild
    torch: InstalledTorch
    pybind11_macros: tuple[tuple[str, str], ...]
    torch_architectures: ArchitectureList | None
    toolkit: Toolkit | None
    toolkit_packages: Path | None
    toolkit_requirements: tuple[str, ...]
    toolkit_findings: tuple[Finding, ...]
    extensions: tuple[Extension, ...]
    missing_sources: Collection[str]
    compiler_versions: Mapping[str, str]
    launcher: tuple[str, ...]
    builds_folder: Path
    below: str = ""


class StepKind(Enum):
    """What a step of a build does."""

    COMPILE_C = "cc"
    COMPILE_CXX = "cxx"
    COMPILE_CUDA = "cuda"
    DEVICE_LINK = "device-link"
    LINK = "link"


COMPILING = {
    StepKind.COMPILE_C: Language.C,
    StepKind.COMPILE_CXX: Language.CXX,
    StepKind.COMPILE_CUDA: Language.CUDA,
}
_LINKING = {StepKind.DEVICE_LINK: "link device code", StepKind.LINK: "link"}


@dataclass(frozen=True)
class Step:
    """One command of a build. It runs in the build folder, and its paths are relative to that.

    Attributes:
        inputs: the files that it reads and that the plan knows of; headers come from the depfile.
        command: program and arguments, without a compiler cache in front.
        sources: the project's files in it, as the project names them: several in a unity file.
    """

    kind: StepKind
    inputs: tuple[str, ...]
    output: str
    command: tuple[str, ...]
    depfile: str | None = None
    architectures: ArchitectureList | None = None
    sources: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        if self.kind in _LINKING:
            return f"{_LINKING[self.kind]} {self.output}"
        what = f"compile {' '.join(self.sources)}"
        return f"{what} for {', '.join(self.architectures.labels)}" if self.architectures else what

    @property
    def cacheable(self) -> bool:
        """Whether a compiler cache can answer for it."""
        return self.kind in COMPILING


@dataclass(frozen=True)
class Flags:
    """The flags of an extension's commands apart from file names, for those who write the commands themselves.

    Attributes:
        compile: of C and of C++; CUDA's are in the steps.
        libraries: what to link, in order, and the project's own flags.
        rpath: where the module finds libraries, ``$ORIGIN/../torch/lib``.
    """

    compile: Mapping[Language, tuple[str, ...]]
    search: tuple[str, ...]
    libraries: tuple[str, ...]
    rpath: tuple[str, ...]


@dataclass(frozen=True)
class PlannedExtension:
    """One extension with everything decided.

    Attributes:
        file_name: the module's path below the wheel's root: ``package/_C.cpython-311-x86_64-linux-gnu.so``.
        steps: in an order in which each can run.
    """

    extension: Extension
    file_name: str
    steps: tuple[Step, ...]
    architectures: ArchitectureList | None
    flags: Flags

    @property
    def output(self) -> str:
        """Relative to the build folder."""
        return self.steps[-1].output


@dataclass(frozen=True)
class ExtensionPlan:
    """Everything that the build of a project's extensions is going to do.

    ``toolkit_packages``, ``toolkit_requirements`` and ``below`` are those of :class:`ExtensionInputs`.

    Attributes:
        identity: changes with the tools and the architectures, and not with the project's place.
        folder: the build folder; all of it may be deleted at any time.
        links: what lies in the build folder as a link: name -> the folder it leads to. With all paths in
            commands going through them, a compiler cache knows the commands again from any other folder.
        system: ``platform.system()`` of the machine that the commands are for.
        local_version: the wheel's local version label, ``cu130.sm120.torch2.14``; empty for none.
        requires: what the wheel requires of PyTorch: ``torch>=2.14,<2.15``.
    """

    project: Path
    settings: Settings
    torch: InstalledTorch
    toolkit: Toolkit | None
    toolkit_packages: Path | None
    toolkit_requirements: tuple[str, ...]
    architectures: ArchitectureList | None
    extensions: tuple[PlannedExtension, ...]
    jobs: Jobs
    identity: str
    folder: Path
    below: str
    links: Mapping[str, Path]
    generated: Mapping[str, str]
    launcher: tuple[str, ...]
    system: str
    local_version: str
    requires: tuple[str, ...]
    toolchain: Mapping[str, str | None]
    findings: tuple[Finding, ...]

    @property
    def host_is_windows(self) -> bool:
        return self.system == "Windows"

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop the build unless they are skipped."""
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)
