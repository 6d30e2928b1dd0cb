"""What doctor knows of a machine and its CUDA toolkits beyond ``host.Host``: frozen data.

It is the same for this machine and a described one.

Throughout, None means that nobody has looked; what was looked for and is not there is ``NOT_INSTALLED``, False or
an empty tuple. Rules are silent where they do not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.hardware.detect import DetectedGpu
from torchwheel.host.compilers import program_words
from torchwheel.host.model import Compiler, Host
from torchwheel.host.visual_studio import VisualStudio
from torchwheel.plan.model import Decided, Plan
from torchwheel.toolkit.host_compiler import HostCompilerLimits, header_conflict, header_limits
from torchwheel.toolkit.model import Toolkit, path_of
from torchwheel.toolkit.read import header_version
from torchwheel.toolkit.stand_in import stand_in
from torchwheel.versions import numbers

_FILE = Path(__file__).with_name("toolkit_parts.toml")


@dataclass(frozen=True)
class Installed:
    """A program or library.

    Attributes:
        version: its version; empty if it is not installed.
        path: where it is; may be empty. Of a library that is not installed, the file that is missing of it.
    """

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
        host: system, processor, memory and Python; its compilers with their full versions.
        compilers_known: whether ``host.compilers`` is all there is, or else nobody looked.
        toolkits: the CUDA toolkits, best first.
        other_compilers: further C++ compilers on ``PATH``, such as g++-13.
        driver: version of NVIDIA's driver; empty if there is none.
        libraries: ``cudnn``, ``nccl``, ``openblas``, ``cutlass`` and ``nvshmem``, as far as looked for.
        tools: ``cmake``, ``ninja`` and ``git``, as far as looked for.
        python_headers: whether Python.h is there.
        packages: installed Python distributions that matter, by canonical name; missing ones with an empty
            version.
        build_folder: the folder that builds are kept in.
        free_disk_bytes: what is free there.
        environment: the environment variables that matter.
        online: whether a public host name can be resolved.
        visual_studio: on Windows the newest one, ``VisualStudio("", "")`` if there is none.
        long_paths: on Windows whether paths may exceed 260 characters.
        obstacles: folders that cannot be written to -> why.
        ccache_obstacles: those of ccache, where a build uses it, which cannot be written to -> why.
        ccache_refusal: why ccache cannot use its settings, where a build uses it.
        unanswered: what did not answer: a program (``cmake``, ``/usr/bin/g++``), ``gpus``, ``driver``, ``network``,
            ``visual-studio`` or ``ccache`` -> why.
    """

    host: Host
    compilers_known: bool = True
    toolkits: tuple[ToolkitFacts, ...] | None = None
    other_compilers: tuple[Compiler, ...] = ()
    driver: str | None = None
    gpus: tuple[DetectedGpu, ...] | None = None
    libraries: Mapping[str, Installed] = field(default_factory=dict)
    tools: Mapping[str, Installed] = field(default_factory=dict)
    python_headers: bool | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    build_folder: str = ""
    free_disk_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    online: bool | None = None
    visual_studio: VisualStudio | None = None
    long_paths: bool | None = None
    obstacles: Mapping[str, str] = field(default_factory=dict)
    ccache_obstacles: Mapping[str, str] = field(default_factory=dict)
    ccache_refusal: str = ""
    unanswered: Mapping[str, str] = field(default_factory=dict)


_FIRST_DRIVER = 100
"""Below it are numbers of L4T, Jetson's Linux: 35.4.1 is JetPack 5's, whose driver has no number of its own."""


def is_l4t(driver: str) -> bool:
    """Whether what is reported as the driver's version is the number of Jetson's Linux.

    Source: https://developer.nvidia.com/embedded/jetson-linux-archive
    """
    return numbers(driver)[:1] < (_FIRST_DRIVER,)


CUDA_COMPILERS = ("CMAKE_CUDA_COMPILER", "CUDACXX", "CUDA_NVCC_EXECUTABLE")
"""The options and variables of a plan that name nvcc."""

CUDA_HOST_COMPILERS = ("CMAKE_CUDA_HOST_COMPILER", "CUDA_HOST_COMPILER", "CUDAHOSTCXX", "NVCC_CCBIN")
"""Those that name the compiler that nvcc calls; the first that is given counts."""


def cuda_programs(plan: Plan, names: Collection[str]) -> Iterator[tuple[Decided, str]]:
    """Return the programs that a user names as one of the CUDA compilers of a plan, each with what names it.

    The toolkit's own nvcc is not among them: its facts are the toolkit's, and an assumed toolkit has none. nvcc takes a
    folder for its host compiler as well.
    """
    if plan.toolkit is None:
        return
    own = path_of(stand_in(plan.toolkit, plan.folders.cache).nvcc or "")
    for decided in (*plan.defines, *plan.variables):
        if decided.name in names and path_of(decided.value) != own and not Path(decided.value).is_dir():
            yield from ((decided, word) for word in program_words(decided.value, None, plan.host.system)[:1])


@dataclass(frozen=True)
class ToolkitFacts:
    """An installed toolkit.

    Attributes:
        header_version: what cuda.h says, ``"12.9"``.
        nvcc_version: what ``nvcc --version`` says, ``"12.9.86"``; None if it was not asked or did not answer.
        missing: names of the parts of ``toolkit_parts.toml`` that are not there.
        limits: the host compilers that it accepts.
        glibc_conflict: the first glibc that its headers contradict; empty for none, None if nobody looked.
    """

    toolkit: Toolkit
    header_version: str | None = None
    nvcc_version: str | None = None
    missing: tuple[str, ...] = ()
    limits: HostCompilerLimits | None = None
    glibc_conflict: str | None = None


@dataclass(frozen=True)
class Part:
    """A part of a CUDA toolkit that a build may need.

    Attributes:
        name: NVIDIA's name for it.
        header: the header that it must have, relative to an include folder; empty for none.
        library: the library to link with, without prefix and suffix; empty for none.
        mentioned: a tree whose CMake files use one of these identifiers needs the part; empty: every tree.
    """

    name: str
    header: str
    library: str
    mentioned: tuple[str, ...]

    def files(self, system: str) -> str:
        """What to look for on a system (``Linux``): the header and the library, as far as it has them."""
        library = f"{self.library}.lib" if system == "Windows" else f"lib{self.library}.so"
        return ", ".join(filter(None, (self.header, self.library and library)))


@cache
def toolkit_parts() -> tuple[Part, ...]:
    return tuple(
        Part(row["name"], row.get("header", ""), row.get("library", ""), tuple(row.get("mentioned", ())))
        for row in read_toml(_FILE)["part"]
    )


def read_toolkit_facts(toolkit: Toolkit, nvcc_version: str | None) -> ToolkitFacts:
    """Read a toolkit, whose nvcc said ``nvcc_version``."""
    return ToolkitFacts(
        toolkit=toolkit,
        header_version=header_version(toolkit.include_dirs),
        nvcc_version=nvcc_version,
        missing=tuple(part.name for part in toolkit_parts() if not _is_there(part, toolkit)),
        limits=header_limits(toolkit),
        glibc_conflict=header_conflict(toolkit),
    )


def _is_there(part: Part, toolkit: Toolkit) -> bool:
    header = not part.header or any((Path(folder) / part.header).is_file() for folder in toolkit.include_dirs)
    return header and (not part.library or _has_library(part.library, toolkit))


def _has_library(name: str, toolkit: Toolkit) -> bool:
    if toolkit.library_dir is None:
        return False
    # NVIDIA's installers keep cupti apart from the other libraries.
    extras = (Path(toolkit.root) / "extras" / "CUPTI" / folder for folder in ("lib64", "lib"))
    names = (f"lib{name}.so", f"lib{name}_static.a", f"{name}.lib")
    return any((place / file).is_file() for place in (Path(toolkit.library_dir), *extras) for file in names)
