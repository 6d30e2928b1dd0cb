"""What an extension is, what a build of extensions is planned from, and the plan, as frozen values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from pathlib import Path, PurePath

from torchwheel.errors import Finding, Problem, stop_on_errors
from torchwheel.extension.naming import PythonBuild
from torchwheel.extension.torch_install.installed_torch import InstalledTorch, installed_torch
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.jobs import Jobs
from torchwheel.host.model import Compiler, Host
from torchwheel.host.this import cache_folder
from torchwheel.reproducible import source_date
from torchwheel.settings import Settings
from torchwheel.settings.project import Project
from torchwheel.survey import BuildRequest
from torchwheel.toolkit.model import Toolkit
from torchwheel.toolkit.select import Selection
from torchwheel.tree.git import Checkout

WITH_CUDA = "WITH_CUDA"
"""The macro of an extension some of whose sources are compiled only where there is CUDA, when they are."""


class Language(Enum):
    """The language of a source file; the value is the name of its flags in ``extra_compile_args``."""

    C = "c"
    CXX = "cxx"
    CUDA = "nvcc"


LANGUAGES = {
    ".c": Language.C,
    ".cc": Language.CXX,
    ".cpp": Language.CXX,
    ".cxx": Language.CXX,
    ".c++": Language.CXX,
    ".cu": Language.CUDA,
}


@cache
def language_of(source: str) -> Language | None:
    """The language of a source file by its suffix; None for no language that is compiled here."""
    path = PurePath(source)
    return Language.CXX if path.suffix == ".C" else LANGUAGES.get(path.suffix.lower())


@dataclass(frozen=True, kw_only=True)
class Extension:
    """One extension module, as its project describes it; paths are relative to the project or absolute.

    A macro without a value has None for it; ``libraries`` have neither prefix nor suffix.

    Attributes:
        runtime_library_dirs: folders that the finished module looks for libraries in (RPATH).
        stable_abi: the oldest PyTorch release it must run with, ``"2.10"``, if it uses the stable ABI alone.
        device_link: whether relocatable device code is linked in a step of its own.
        source_architectures: architectures of the sources that a pattern such as ``sm90/*.cu`` matches, in place of the
            extension's own; the first match counts.
        default_architectures: what to compile for when nobody asks; None for what PyTorch was built for.
        cuda: whether CUDA's headers and libraries belong to it even without CUDA sources.
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
    source_architectures: Mapping[str, ArchitectureList] = field(default_factory=dict)
    default_architectures: ArchitectureList | None = None
    cuda: bool = False
    stable_abi: str | None = None
    limited_api: bool = False
    unity: bool = False
    front_end: str = "separate"
    depends: tuple[str, ...] = ()
    origin: str = ""

    @property
    def module(self) -> str:
        """The last part of the name: what Python's import looks for ``PyInit_`` of."""
        return self.name.rpartition(".")[2]

    @property
    def cuda_sources(self) -> tuple[str, ...]:
        return tuple(source for source in self.sources if language_of(source) is Language.CUDA)

    @property
    def uses_cuda(self) -> bool:
        """Whether CUDA's headers and libraries belong to it."""
        return self.cuda or bool(self.cuda_sources)

    @property
    def wants_limited_api(self) -> bool:
        """Whether it is to use Python's limited API alone; PyTorch's stable ABI implies it."""
        return self.limited_api or self.stable_abi is not None


@dataclass(frozen=True, eq=False)
class ExtensionProject:
    """A project with extensions, and what is read for it.

    Attributes:
        request: its project is absolute.
        findings: what is worth saying of what a frontend requests.
    """

    request: BuildRequest
    host: Host
    settings: Settings
    findings: tuple[Finding, ...] = ()

    @property
    def folder(self) -> Path:
        return self.request.project

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """That of the request, with the variables that the settings name."""
        return {**self.request.environment, **self.settings.env}

    @property
    def pyproject(self) -> Project:
        return self.settings.project or Project(self.folder)

    @property
    def cache(self) -> Path:
        """torchwheel's cache folder."""
        return cache_folder(self.environment)

    @property
    def builds_folder(self) -> Path:
        """The folder that build folders of extensions are kept in."""
        chosen = self.settings.build_dir
        return Path(chosen) if chosen else self.cache / "extensions"

    @cached_property
    def torch(self) -> InstalledTorch:
        """The installed PyTorch, read when it is first needed: an sdist needs none.

        Raises:
            TorchwheelError: there is none, or it cannot be read.
        """
        return installed_torch()

    @property
    def reproducible(self) -> bool:
        """Whether the wheel is to be the same wherever and whenever it is built."""
        return source_date(self.environment) is not None

    @property
    def builds_cuda(self) -> bool:
        """Whether sources that only a build with CUDA has are compiled."""
        return self.torch.cuda is not None and not self.settings.is_cpu


@dataclass(frozen=True, kw_only=True)
class ExtensionInputs:
    """Everything that the plan of a project's extensions is made from.

    Attributes:
        torch_architectures: what PyTorch's device code was built for; None for none, or where nobody knows.
        cxx: the C++ compiler with its version.
        unanswered: compilers that did not tell their version, and why.
        launcher: what stands before a compiler in its commands, such as a compiler cache.
        checkout: what git says of the project, or said when the sdist was made that it comes from.
        below: the folder in the build folder that everything lies in but the link to the project, which lies beside it,
            and to whose name the plan adds its identity; empty for the build folder itself.
        front_end: what is worth saying of the environment that the front end runs in.
        left_out: that CUDA sources are left out although a GPU is asked for, where that check is skipped; where it is
            not, there is no plan.
    """

    project: ExtensionProject
    torch: InstalledTorch
    torch_architectures: ArchitectureList | None
    python: PythonBuild
    selection: Selection | None
    cxx: Compiler | None
    extensions: tuple[Extension, ...]
    missing_sources: Collection[str]
    unanswered: Mapping[str, str]
    launcher: tuple[str, ...]
    checkout: Checkout
    below: str = ""
    compiler_cache: str | None = None
    front_end: tuple[Finding, ...] = ()
    left_out: tuple[Problem, ...] = ()

    @property
    def toolkit(self) -> Toolkit | None:
        """The CUDA toolkit, where it is there and an extension uses it."""
        there = self.selection is not None and self.selection.there
        used = there and any(extension.uses_cuda for extension in self.extensions)
        return self.selection.toolkit if used and self.selection else None


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
        may_read: files that it reads if they are there: libraries by their names, and what flags name.
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
    may_read: tuple[str, ...] = ()

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
        names: links in the build folder and what paths through them are called in a reproducible module.
    """

    compile: Mapping[Language, tuple[str, ...]]
    search: tuple[str, ...]
    libraries: tuple[str, ...]
    rpath: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)


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

    Attributes:
        identity: changes with the tools and the architectures, and not with the project's place.
        folder: the build folder; all of it may be deleted at any time.
        below: the folder in it that everything lies in; empty for the build folder itself.
        links: what lies in the build folder as a link: name -> the folder it leads to. With all paths in
            commands going through them, a compiler cache knows the commands again from any other folder.
        generated: path in the build folder -> content.
        local_version: the wheel's local version label, ``cu130.sm120.torch2.14``; empty for none.
        requires: what the wheel requires of PyTorch: ``torch>=2.14,<2.15``.
    """

    inputs: ExtensionInputs
    architectures: ArchitectureList | None
    extensions: tuple[PlannedExtension, ...]
    jobs: Jobs
    identity: str
    folder: Path
    below: str
    links: Mapping[str, Path]
    generated: Mapping[str, str]
    local_version: str
    requires: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def project(self) -> ExtensionProject:
        return self.inputs.project

    @property
    def summary(self) -> str:
        """What is compiled, for what: ``kernels._C for sm120, PyTorch 2.14.1``."""
        where = ", ".join(self.architectures.labels) if self.architectures else "the CPU"
        names = ", ".join(extension.extension.name for extension in self.extensions)
        return f"{names} for {where}, PyTorch {self.inputs.torch.version}"

    @property
    def host_is_windows(self) -> bool:
        return self.project.host.system == "Windows"

    @property
    def skipped(self) -> tuple[str, ...]:
        """The ids of errors that ``skip-check`` lets pass: none where errors leave nothing to build."""
        buildable = self.extensions or not self.inputs.extensions
        return self.project.settings.skip_check if buildable else ()

    def stop_on_errors(self) -> None:
        """Raise for the errors that are not skipped.

        Raises:
            TorchwheelError: there are such errors; all of them are in it.
        """
        stop_on_errors(self.findings, self.skipped)
