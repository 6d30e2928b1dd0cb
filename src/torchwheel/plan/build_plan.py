"""The plan as frozen values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compiler_cache import LAUNCHER
from torchwheel.host.jobs import Jobs
from torchwheel.host.machine import Host
from torchwheel.progress.build_record import RECORD
from torchwheel.reporting.errors import Finding, stopping_errors
from torchwheel.reporting.masking import mask_value
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.system.files import short_digest
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.tree.source_tree import Tree

D = TypeVar("D", bound="Decided")

REPORT = "torchwheel-values.json"
"""The name of the file with CMake's final values, in the build directory."""


@dataclass(frozen=True)
class WheelVersion:
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
        return cls(name, value, decided.layer, decided.origin, decided.replaced, **more)

    @property
    def shown(self) -> str:
        return mask_value(self.name, self.value)


@dataclass(frozen=True)
class Define(Decided):
    """One requested CMake option, ``USE_NCCL``, its value as CMake text; which CMake must have if ``expected``."""

    expected: bool = True


@dataclass(frozen=True)
class Variable(Decided):
    """One environment variable of the inner build; with ``prepend`` the value goes before the inherited one."""

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
        return self.root / "tmp"

    @property
    def log(self) -> Path:
        return self.root / "build.log"

    @property
    def record(self) -> Path:
        return self.root / RECORD

    @property
    def stage_state(self) -> Path:
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
    def compiler_launcher(self) -> Path:
        """The script with the compiler cache, behind ``launcher``."""
        return self.root / LAUNCHER

    @property
    def cmake_cache(self) -> Path:
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
class Plan:
    """Every decision about a build.

    Attributes:
        fingerprint: identifies everything that affects the result, 12 hexadecimal digits.
        findings: problems and notes about the request, errors first; the checks of the machine have their own result.
        file_options: the options that only ``folders.defines_file`` passes on.
        maps_paths: whether compilers get the flags that keep the path of their working directory out of objects.
        toolkit_packages: the folder where ``toolkit_requires`` are installed; None if they are not yet.
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
    file_options: frozenset[str]
    maps_paths: bool
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
    reproducible: bool = False

    @property
    def launches_compilers(self) -> bool:
        """Whether ``folders.launcher`` starts the compilers: where it can wait for memory, needed or not.

        Commands that depend on the jobs or the memory would compile everything again.
        """
        return self.host.system == "Linux"

    @property
    def architecture_count(self) -> int:
        """The number of architectures of device code; 0 without CUDA."""
        return len(self.architectures.architectures) if self.architectures else 0

    @property
    def errors(self) -> tuple[Finding, ...]:
        return stopping_errors(self.findings, self.settings.skip_check)


# These affect the speed of a build or where its programs find their libraries, not its result.
_WITHOUT_EFFECT = frozenset({"FLASH_ATTENTION_MAX_JOBS", "LD_LIBRARY_PATH", "PATH"})
_WITHOUT_EFFECT_PREFIXES = ("CCACHE_", "SCCACHE_")


def hash_facts(facts: object) -> str:
    """12 hexadecimal digits over JSON-able data."""
    return short_digest([json.dumps(facts, sort_keys=True, separators=(",", ":"))])


def is_relevant(name: str) -> bool:
    """Whether an option or a variable affects a build's result."""
    # The compiler that ccache runs instead of the given one (https://ccache.dev/manual/latest.html, "compiler").
    if name == "CCACHE_COMPILER":
        return True
    return name not in _WITHOUT_EFFECT and not name.startswith(_WITHOUT_EFFECT_PREFIXES)
