"""Frozen values: an extension, the inputs of a plan, and the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from pathlib import Path, PurePath
from typing import Any

from torchwheel.extension.compile.units import Layout
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compiler_cache import LAUNCHER
from torchwheel.host.jobs import Jobs
from torchwheel.host.machine import Compiler, Host
from torchwheel.host.this import cache_folder
from torchwheel.reporting.errors import Finding, stop_on_errors
from torchwheel.reproducible import source_date
from torchwheel.settings import Settings
from torchwheel.settings.project import Project
from torchwheel.survey import BuildRequest
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.select import Selection
from torchwheel.torch_install.installed_torch import InstalledTorch, installed_torch
from torchwheel.tree.git import Checkout

WITH_CUDA = "WITH_CUDA"
"""The macro of an extension with ``cuda-sources``, defined when these are compiled."""


class Language(Enum):
    """The language of a source file; the value is the name of its flags in ``extra_compile_args``."""

    CXX = "cxx"
    CUDA = "nvcc"


LANGUAGES = {**dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".c++"), Language.CXX), ".cu": Language.CUDA}


@cache
def language_of(source: str) -> Language | None:
    return LANGUAGES.get(PurePath(source).suffix.lower())


@dataclass(frozen=True, kw_only=True)
class Extension:
    """One extension module, as its project describes it; paths are relative to the project or absolute.

    Attributes:
        arguments: those of PyTorch's function that neither target nor wheel depend on; a setup.py has passed its own.
        stable_abi: the oldest PyTorch it must run with, ``"2.10"``, if it uses only the stable ABI.
        source_architectures: architectures of the sources that a pattern such as ``sm90/*.cu`` matches, instead of
            the extension's own; the first match wins.
        cuda: whether it uses CUDA's headers and libraries even without CUDA sources.
        by_setup_py: whether a setup.py describes it, so that setuptools and PyTorch judge its sources.
        front_end: ``separate``: device code is compiled for each architecture separately; ``shared``: all machine code
            is assembled from one intermediate code, that of the oldest architecture.
    """

    name: str
    sources: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[Language, tuple[str, ...]] = field(default_factory=dict)
    source_architectures: Mapping[str, ArchitectureList] = field(default_factory=dict)
    cuda: bool = False
    stable_abi: str | None = None
    limited_api: bool = False
    unity: bool = False
    front_end: str = "separate"
    depends: tuple[str, ...] = ()
    by_setup_py: bool = False
    origin: str = ""

    @property
    def cuda_sources(self) -> tuple[str, ...]:
        return tuple(source for source in self.sources if language_of(source) is Language.CUDA)

    @property
    def uses_cuda(self) -> bool:
        return self.cuda or bool(self.cuda_sources)

    @property
    def wants_limited_api(self) -> bool:
        """Whether it must use only Python's limited API; PyTorch's stable ABI implies that."""
        return self.limited_api or self.stable_abi is not None


@dataclass(frozen=True, eq=False)
class ExtensionProject:
    """A project with extensions, and the data read for it; the findings are about a frontend's request."""

    request: BuildRequest
    host: Host
    settings: Settings
    findings: tuple[Finding, ...] = ()

    @property
    def folder(self) -> Path:
        return self.request.project

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The request's environment, with the variables in the settings."""
        return {**self.request.environment, **self.settings.env}

    @property
    def pyproject(self) -> Project:
        return self.settings.project or Project(self.folder)

    @property
    def cache(self) -> Path:
        return cache_folder(self.environment)

    @property
    def builds_folder(self) -> Path:
        chosen = self.settings.build_dir
        return Path(chosen) if chosen else self.cache / "extensions"

    @cached_property
    def torch(self) -> InstalledTorch:
        """The installed PyTorch, read on first use because an sdist does not need it."""
        return installed_torch()

    @property
    def reproducible(self) -> bool:
        """Whether the wheel must not depend on the place and time of the build."""
        return source_date(self.environment) is not None

    @property
    def builds_cuda(self) -> bool:
        """Whether the sources for builds with CUDA are compiled."""
        return self.torch.cuda is not None and not self.settings.is_cpu


@dataclass(frozen=True, kw_only=True)
class ExtensionInputs:
    """The inputs of the plan of a project's extensions.

    Attributes:
        torch_architectures: the architectures of PyTorch's device code; None for none or unknown.
        cuda_host: nvcc's host compiler, if it is another one than that of C++.
        unanswered: compilers that did not print their version, and why.
        checkout: the project's git state, or that of the sdist it was unpacked from.
        module_suffixes: how files of extension modules end for this Python, its own first.
        below: the folder in the build folder for everything except the link to the project, which is beside it; the
            plan appends its identity to the name. Empty for the build folder itself.
    """

    project: ExtensionProject
    torch: InstalledTorch
    torch_architectures: ArchitectureList | None
    selection: Selection | None
    cxx: Compiler | None
    extensions: tuple[Extension, ...]
    unanswered: Mapping[str, str]
    checkout: Checkout
    module_suffixes: tuple[str, ...]
    below: str = ""
    compiler_cache: str | None = None
    cuda_host: Compiler | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def launcher(self) -> tuple[str, ...]:
        """The command before a compiler: the user's own, else a compiler cache."""
        own = self.cxx.launcher if self.cxx else ()
        return own or ((self.compiler_cache,) if self.compiler_cache else ())

    @property
    def toolkit(self) -> Toolkit | None:
        """The CUDA toolkit, if it exists and an extension uses it."""
        there = self.selection is not None and self.selection.there
        used = there and any(extension.uses_cuda for extension in self.extensions)
        return self.selection.toolkit if used and self.selection else None


class StepKind(Enum):
    COMPILE_CXX = "cxx"
    COMPILE_CUDA = "cuda"
    DEVICE_LINK = "device-link"
    LINK = "link"


COMPILING = {Language.CXX: StepKind.COMPILE_CXX, Language.CUDA: StepKind.COMPILE_CUDA}
_LINKING = {StepKind.DEVICE_LINK: "link device code", StepKind.LINK: "link"}


@dataclass(frozen=True)
class Step:
    """One command of a build, without a compiler cache. It runs in the build folder, and has paths relative to that.

    Attributes:
        inputs: the known input files; headers come from the depfile.
        sources: the project's files in it, as the project names them; several in a unity file.
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
        return self.kind in COMPILING.values()


@dataclass(frozen=True)
class Flags:
    """The flags of an extension's commands without file names, for CMake's own commands.

    Attributes:
        compile: the flags for C++; CUDA's are in the steps.
        search: those before the objects that are linked.
        libraries: those after them.
    """

    compile: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedExtension:
    """One planned extension.

    Attributes:
        file_name: the module's path below the wheel's root: ``package/_C.cpython-311-x86_64-linux-gnu.so``.
        steps: in an order in which each can run; empty before PyTorch's own BuildExtension has made them, as the flags.
        options: nvcc's options for architectures, where the project's own are used as they are.
        usual: the architectures of sources without separate ones.
    """

    extension: Extension
    file_name: str
    architectures: ArchitectureList | None
    options: tuple[str, ...] = ()
    usual: ArchitectureList | None = None
    steps: tuple[Step, ...] = ()
    flags: Flags = Flags()

    @property
    def folder(self) -> str:
        # A top-level module may be named like a file beside it, or like a link.
        return self.extension.name if "." in self.extension.name else f"{self.extension.name}-module"


@dataclass(frozen=True)
class ExtensionPlan:
    """Every decision about the build of a project's extensions.

    Attributes:
        folder: the build folder; all of it may be deleted at any time.
        below: the folder in it for everything; empty for the build folder itself.
    """

    inputs: ExtensionInputs
    architectures: ArchitectureList | None
    extensions: tuple[PlannedExtension, ...]
    jobs: Jobs
    folder: Path
    below: str
    layout: Layout
    findings: tuple[Finding, ...]

    @property
    def project(self) -> ExtensionProject:
        return self.inputs.project

    @property
    def summary(self) -> str:
        """The modules with their targets: ``kernels._C for sm120, PyTorch 2.14.1``."""
        where = ", ".join(self.architectures.labels) if self.architectures else "the CPU"
        names = ", ".join(extension.extension.name for extension in self.extensions)
        return f"{names} for {where}, PyTorch {self.inputs.torch.version}"

    @property
    def host_is_windows(self) -> bool:
        return self.project.host.system == "Windows"

    @property
    def launcher(self) -> tuple[str, ...]:
        """The command before each compiler: the user's own, on Windows the compiler cache, else torchwheel's script."""
        own = self.inputs.cxx is not None and self.inputs.cxx.launcher
        return self.inputs.launcher if own or self.host_is_windows else (f"./{LAUNCHER}",)

    @property
    def skipped(self) -> tuple[str, ...]:
        """The ids of skipped errors; none if errors leave nothing to build."""
        buildable = self.extensions or not self.inputs.extensions
        return self.project.settings.skip_check if buildable else ()

    def stop_on_errors(self) -> None:
        stop_on_errors(self.findings, self.skipped)
