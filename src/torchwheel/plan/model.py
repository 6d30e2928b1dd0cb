"""The plan as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torchwheel.errors import Finding, stopping
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.jobs import Jobs
from torchwheel.host.model import Host
from torchwheel.progress.record import RECORD
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.toolkit.model import Toolkit
from torchwheel.tree.model import Tree

D = TypeVar("D", bound="Decided")


@dataclass(frozen=True)
class WheelVersion:
    """The version a wheel will carry.

    Attributes:
        base: the public version, e.g. ``2.14.1``.
        local: the local version label, e.g. ``cu130.sm120``; empty for none.
        base_origin: where the base came from, in words.
    """

    base: str
    local: str
    base_origin: str

    def __str__(self) -> str:
        return f"{self.base}+{self.local}" if self.local else self.base


@dataclass(frozen=True)
class Decided:
    """A value that the inner build is given, and what decided it.

    Attributes:
        layer: the settings layer that decided it.
        origin: the place in that layer, in words.
        replaced: what lower layers said.
    """

    name: str
    value: str
    layer: Layer
    origin: str
    replaced: tuple[Setting, ...] = ()

    @classmethod
    def of(cls: type[D], name: str, value: str, decided: Setting | Decided, **more: bool) -> D:
        """A value that follows from a setting, or from another value."""
        return cls(name, value, decided.layer, decided.origin, decided.replaced, **more)


@dataclass(frozen=True)
class Define(Decided):
    """One CMake option that is requested, ``USE_NCCL``, its value as CMake text.

    Attributes:
        expected: whether CMakeCache.txt must hold this value after configuring.
    """

    expected: bool = True


@dataclass(frozen=True)
class Variable(Decided):
    """One environment variable of the inner build.

    Attributes:
        prepend: the value is a folder that goes in front of what is inherited, with the platform's path separator.
    """

    prepend: bool = False


@dataclass(frozen=True)
class BuildFolders:
    """Where a build happens; everything below ``root`` may be deleted at any time.

    Attributes:
        cache: torchwheel's cache folder.
        root: the folder that belongs to this fingerprint.
        source: the tree that is built: a staged copy below ``root``, or the user's own tree.
        build: CMake's build directory.
        environment: the interpreter's folder that the build requirements are installed in, or None
            when the current environment serves.
    """

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
        """The file that holds the output of the latest build."""
        return self.root / "build.log"

    @property
    def previous_log(self) -> Path:
        """The log of the build before it."""
        return self.root / "previous.log"

    @property
    def record(self) -> Path:
        """The file that holds what the steps of the builds in this folder took."""
        return self.root / RECORD

    @property
    def stage_state(self) -> Path:
        """The file that remembers what was copied into the stage, and how."""
        return self.root / "stage.json"

    @property
    def defines_file(self) -> Path:
        """The CMake file with the options that the tree's own backend cannot forward."""
        return self.root / "torchwheel-defines.cmake"

    @property
    def launcher(self) -> Path:
        """The script in front of each compiler and linker; what it reads lies beside it, with the suffix json."""
        return self.root / "memory_launcher.py"

    @property
    def stand_in(self) -> Path:
        """The folder of the script that takes a compiler cache's place."""
        return self.root / "stand-in"

    @property
    def cmake_cache(self) -> Path:
        """CMake's cache of the build directory."""
        return self.build / "CMakeCache.txt"

    @property
    def staged(self) -> bool:
        """Whether the build happens in a copy of the tree."""
        return self.source.parent == self.root


@dataclass(frozen=True)
class Inclusion:
    """What is in the file that CMake includes before ``project()``; false where there is none.

    Attributes:
        options: names of the options that reach CMake through it alone.
        maps_paths: whether compilers get the flags that keep the path of their working directory out of objects.
        launcher: whether compilers are started by ``folders.launcher``: always where it can wait, also if it need not,
            since commands that change with the jobs or the memory would compile everything again.
    """

    options: frozenset[str]
    maps_paths: bool
    launcher: bool

    def __bool__(self) -> bool:
        return bool(self.options) or self.maps_paths or self.launcher


@dataclass(frozen=True)
class Plan:
    """Everything a build is going to do.

    Attributes:
        host: the machine that the plan is for.
        toolkit: the CUDA toolkit, or None for a build without CUDA.
        architectures: what device code is compiled for, or None without CUDA.
        wheel_name: the wheel's file name.
        defines: CMake options, sorted by name.
        variables: the inner build's environment, sorted by name.
        included: what CMake includes, from ``folders.defines_file``.
        build_requires: what the tree's own backend needs, as its pyproject.toml says.
        inner_config_settings: config settings for the tree's own backend.
        python_executable: the interpreter that runs the inner build.
        jobs: how many compilers may run at once, and why.
        fingerprint: identifies what makes build results differ, 12 hexadecimal digits.
        folders: where the build happens.
        findings: what is wrong with the request or worth knowing of it, errors first; what the checks of the machine
            find is in their own result.
        toolkit_requires: the packages of PyPI that the toolkit is made of; empty if it is an installed one.
        toolkit_packages: the folder that these are installed in; None if they are not yet.
        compiler_cache: the compiler cache in front of the compilers, ``ccache`` or ``sccache``.
        stand_in: whether a script of the cache's name, which only runs the compiler, takes its place: commands stay
            the same, and nothing is compiled again, where the cache is missing or cannot be used.
        reproducible: whether the wheel is to be the same wherever and whenever it is built.
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
        """How many architectures device code is compiled for; 0 without CUDA."""
        return len(self.architectures.architectures) if self.architectures else 0

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that would stop the build."""
        return stopping(self.findings, self.settings.skip_check)
