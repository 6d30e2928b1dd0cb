"""The plan as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.jobs import Jobs
from torchwheel.host.machine import Host
from torchwheel.progress.build_record import RECORD
from torchwheel.reporting.errors import Finding, stopping_errors
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.tree.source_tree import Tree

D = TypeVar("D", bound="Decided")

REPORT = "torchwheel-values.json"
"""The name of the file with CMake's final values, in the build directory."""


@dataclass(frozen=True)
class WheelVersion:
    """The wheel's version."""

    base: str
    local: str
    base_origin: str

    def __str__(self) -> str:
        return f"{self.base}+{self.local}" if self.local else self.base


@dataclass(frozen=True)
class Decided:
    """A value for the inner build, and its source."""

    name: str
    value: str
    layer: Layer
    origin: str
    replaced: tuple[Setting, ...] = ()

    @classmethod
    def of(cls: type[D], name: str, value: str, decided: Setting | Decided, **more: bool) -> D:
        """Create a value derived from a setting or from another value."""
        return cls(name, value, decided.layer, decided.origin, decided.replaced, **more)


@dataclass(frozen=True)
class Define(Decided):
    """One requested CMake option, ``USE_NCCL``, its value as CMake text.

    Attributes:
        expected: whether CMake must have this value after configuring.
    """

    expected: bool = True


@dataclass(frozen=True)
class Variable(Decided):
    """One environment variable of the inner build.

    Attributes:
        prepend: the value is a folder to put in front of the inherited value, with the platform's path separator.
    """

    prepend: bool = False


@dataclass(frozen=True)
class BuildFolders:
    """The folders of a build; everything below ``root`` may be deleted at any time."""

    cache: Path
    root: Path
    source: Path
    build: Path
    environment: Path | None

    @property
    def temporary(self) -> Path:
        """The folder of the build's temporary files."""
        return self.root / "tmp"

    @property
    def log(self) -> Path:
        """The output of the latest build."""
        return self.root / "build.log"

    @property
    def previous_log(self) -> Path:
        """The output of the build before it."""
        return self.root / "previous.log"

    @property
    def record(self) -> Path:
        """The record of the duration of the steps of builds in this folder."""
        return self.root / RECORD

    @property
    def stage_state(self) -> Path:
        """The record of the files in the stage."""
        return self.root / "stage.json"

    @property
    def defines_file(self) -> Path:
        """The CMake file with the options that the tree's own backend cannot forward."""
        return self.root / "torchwheel-defines.cmake"

    @property
    def launcher(self) -> Path:
        """The script in front of each compiler and linker; its input is beside it, with the suffix json."""
        return self.root / "memory_launcher.py"

    @property
    def stand_in(self) -> Path:
        """The folder of the script that replaces a compiler cache."""
        return self.root / "stand-in"

    @property
    def cmake_cache(self) -> Path:
        """CMake's cache of the build directory."""
        return self.build / "CMakeCache.txt"

    @property
    def cmake_values(self) -> Path:
        """The final values of the plan's and the tree's options, which CMake writes through ``defines_file``."""
        return self.build / REPORT

    @property
    def staged(self) -> bool:
        """Whether the build happens in a copy of the tree."""
        return self.source.parent == self.root


@dataclass(frozen=True)
class Inclusion:
    """The content of the file that CMake includes before ``project()``.

    Attributes:
        options: names of the options that are passed only through it.
        maps_paths: whether compilers get the flags that keep the path of their working directory out of objects.
        launcher: whether ``folders.launcher`` starts the compilers: always where it can wait for memory, needed or
            not, because commands that depend on the jobs or the memory would compile everything again.
    """

    options: frozenset[str]
    maps_paths: bool
    launcher: bool


@dataclass(frozen=True)
class Plan:
    """Every decision about a build.

    Attributes:
        included: the content of ``folders.defines_file``, which CMake includes.
        fingerprint: identifies everything that affects the result, 12 hexadecimal digits.
        findings: problems and notes about the request, errors first; the checks of the machine have their own result.
        toolkit_packages: the folder where these are installed; None if they are not yet.
        stand_in: whether a script of the cache's name, which only runs the compiler, replaces a missing or unusable
            cache, so that commands stay the same and nothing is compiled again.
    """

    tree: Tree
    settings: Settings
    host: Host
    toolkit: Toolkit | None
    architectures: ArchitectureList | None
    version: WheelVersion
    wheel_name: str
    defines: tuple[Define, ...]
    variables: tuple[Variable, ...]
    included: Inclusion
    build_requires: tuple[str, ...]
    inner_config_settings: dict[str, str | list[str]]
    python_executable: str
    jobs: Jobs
    fingerprint: str
    folders: BuildFolders
    findings: tuple[Finding, ...]
    toolkit_requires: tuple[str, ...] = ()
    toolkit_packages: Path | None = None
    compiler_cache: str | None = None
    stand_in: bool = False
    reproducible: bool = False

    @property
    def distribution(self) -> str:
        """The distribution's name, as in the wheel's file name."""
        return self.tree.name

    @property
    def architecture_count(self) -> int:
        """The number of architectures of device code; 0 without CUDA."""
        return len(self.architectures.architectures) if self.architectures else 0

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop the build."""
        return stopping_errors(self.findings, self.settings.skip_check)
