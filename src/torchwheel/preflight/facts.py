"""Facts about a machine and its CUDA toolkits beyond ``host.Host``, for this machine or a described one.

None always means unknown; a known absence is ``NOT_INSTALLED``, False or an empty tuple.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.host.compilers import program_words
from torchwheel.host.machine import Compiler, Host
from torchwheel.plan.build_plan import Decided, Plan
from torchwheel.system.paths import is_dir, is_file
from torchwheel.system.toml import read_toml
from torchwheel.toolkit.assemble import linked_toolkit
from torchwheel.toolkit.cuda_toolkit import Toolkit, path_of
from torchwheel.toolkit.host_compiler import HostCompilerLimits, header_conflict, header_limits
from torchwheel.versions import parse_numbers


@dataclass(frozen=True)
class Installed:
    """A program or library; ``path`` may be empty, and is the missing file of a library that is not installed."""

    version: str
    path: str = ""

    @property
    def there(self) -> bool:
        return bool(self.version)


NOT_INSTALLED = Installed("")


@dataclass(frozen=True)
class HostFacts:
    """A machine.

    Attributes:
        compilers_known: whether ``host.compilers`` is complete, or unknown.
        own_index: whether pip or uv is configured to take packages from elsewhere than PyPI.
        unanswered: a program (``cmake``, ``/usr/bin/g++``), ``gpus``, ``driver`` or ``network`` -> why.
    """

    host: Host
    compilers_known: bool = True
    toolkits: tuple[ToolkitFacts, ...] | None = None
    other_compilers: tuple[Compiler, ...] = ()
    driver: str | None = None
    gpus: tuple[NamedGpu, ...] | None = None
    libraries: Mapping[str, Installed] = field(default_factory=dict)
    tools: Mapping[str, Installed] = field(default_factory=dict)
    python_headers: bool | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    build_folder: str = ""
    free_disk_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    online: bool | None = None
    own_index: bool = False
    obstacles: Mapping[str, str] = field(default_factory=dict)
    unanswered: Mapping[str, str] = field(default_factory=dict)


def is_l4t(driver: str) -> bool:
    """Whether a driver version is that of Jetson's Linux: https://developer.nvidia.com/embedded/jetson-linux-archive"""
    # 35.4.1 is JetPack 5's, whose driver has no separate number.
    return parse_numbers(driver)[:1] < (100,)


CUDA_COMPILERS = ("CMAKE_CUDA_COMPILER", "CUDACXX", "CUDA_NVCC_EXECUTABLE")
"""The options and variables of a plan that name nvcc."""

CUDA_HOST_COMPILERS = ("CMAKE_CUDA_HOST_COMPILER", "CUDA_HOST_COMPILER", "CUDAHOSTCXX", "NVCC_CCBIN")
"""The options and variables that name nvcc's host compiler; the first one set wins."""


def cuda_programs(plan: Plan, names: Collection[str]) -> Iterator[tuple[Decided, str]]:
    """Yield the programs that the user names as a CUDA compiler of a plan, each with its option or variable.

    The toolkit's own nvcc is left out, because its facts are the toolkit's, and an assumed toolkit has none; and a
    folder, which nvcc also accepts for its host compiler.
    """
    if plan.toolkit is None:
        return
    own = path_of(linked_toolkit(plan.toolkit, plan.folders.cache).nvcc or "")
    for decided in (*plan.defines, *plan.variables):
        if decided.name in names and path_of(decided.value) != own and not is_dir(Path(decided.value)):
            yield from ((decided, word) for word in program_words(decided.value, None, plan.host.system)[:1])


@dataclass(frozen=True)
class ToolkitFacts:
    toolkit: Toolkit
    missing: tuple[str, ...] = ()
    limits: HostCompilerLimits | None = None
    glibc_conflict: str | None = None


@dataclass(frozen=True)
class Part:
    """A part of a CUDA toolkit that trees need whose CMake files mention it, or all trees; it may have no header."""

    name: str
    header: str
    library: str
    mentioned: tuple[str, ...]

    def describe_files(self, system: str) -> str:
        library = f"{self.library}.lib" if system == "Windows" else f"lib{self.library}.so"
        return ", ".join(filter(None, (self.header, self.library and library)))


@cache
def toolkit_parts() -> tuple[Part, ...]:
    return tuple(
        Part(row["name"], row.get("header", ""), row.get("library", ""), tuple(row.get("mentioned", ())))
        for row in read_toml(Path(__file__).with_name("toolkit_parts.toml"))["part"]
    )


def read_toolkit_facts(toolkit: Toolkit) -> ToolkitFacts:
    return ToolkitFacts(
        toolkit=toolkit,
        missing=tuple(part.name for part in toolkit_parts() if not _is_there(part, toolkit)),
        limits=header_limits(toolkit),
        glibc_conflict=header_conflict(toolkit),
    )


def _is_there(part: Part, toolkit: Toolkit) -> bool:
    header = not part.header or any(is_file(Path(folder) / part.header) for folder in toolkit.include_dirs)
    return header and (not part.library or _has_library(part.library, toolkit))


def _has_library(name: str, toolkit: Toolkit) -> bool:
    if toolkit.library_dir is None:
        return False
    # NVIDIA's installers put cupti into a separate folder.
    extras = (Path(toolkit.root) / "extras" / "CUPTI" / folder for folder in ("lib64", "lib"))
    names = (f"lib{name}.so", f"lib{name}_static.a", f"{name}.lib")
    return any(is_file(place / file) for place in (Path(toolkit.library_dir), *extras) for file in names)
