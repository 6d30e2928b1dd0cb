"""Read the installed PyTorch from its files, without importing or running it.

Importing it takes seconds and needs its dependencies, which a build environment may lack. The facts for extensions are
in ``torch/version.py``, in the metadata, headers and CMake files, and in the libraries themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from packaging.version import Version

from torchwheel.extension.torch_install.torch_files import (
    cxx11_abi,
    cxx_standard,
    nvidia_library_dirs,
    pybind11_macros,
    torch_files,
)
from torchwheel.extension.torch_install.torch_location import (
    TorchDistribution,
    TorchLocation,
    is_source_tree,
    locate_torch,
    torch_leftovers,
)
from torchwheel.hardware.arch import ArchitectureList, CodeTarget, parse_architectures
from torchwheel.reporting.errors import Finding, Problem, TorchwheelError, error, warning
from torchwheel.system.paths import exists, is_file
from torchwheel.versions import parse_numbers
from torchwheel.wheel.contents import TorchVersion, parse_torch_version
from torchwheel.wheel.fatbinary import ImageKind, combine, read_images

_VERSION_FILE_LIMIT = 1 << 16
_MANIFEST_LIMIT = 1 << 24
_CORE = ("c10", "torch", "torch_cpu")

# After an interrupted or a second installation, because PyTorch's wheels are replaced as a whole.
_REINSTALL = "install PyTorch again: pip install --force-reinstall --no-deps torch"

# The names of operating systems' installers in INSTALLER.
_SYSTEM_INSTALLERS = ("rpm", "debian", "dpkg", "apt", "portage", "pacman", "nix")

# The library of CUDA kernels, and the two from BUILD_SPLIT_CUDA in releases before 2.6.
_KERNELS = tuple(
    file
    for name in ("torch_cuda", "torch_cuda_cu", "torch_cuda_cpp")
    for file in (f"lib{name}.so", f"{name}.dll")
)
_CODE_KINDS = ("sass", "ptx")


class TorchOrigin(Enum):
    """How a PyTorch was installed."""

    PACKAGE = "package"
    """Installed from a wheel, or a conda package."""
    SYSTEM = "system"
    """A package of the operating system, or ``setup.py install``."""
    SOURCE_TREE = "source-tree"
    """A source tree that was built in place: on the search path, or an editable install."""


@dataclass(frozen=True, kw_only=True)
class InstalledTorch:
    """One installed PyTorch; without headers ``include_dirs`` is empty, and without metadata ``distribution`` is None.

    Attributes:
        cxx11_abi: ``_GLIBCXX_USE_CXX11_ABI``; meaningless with another C++ library than GNU's.
        pybind11_macros: the macros that make a module's pybind11 find PyTorch's: name and value; empty since 2.9.
        identity: a text that changes with this PyTorch, and is equal in every environment with the same wheel.
    """

    root: Path
    site_packages: Path
    version: str
    release: tuple[int, int]
    cuda: str | None
    hip: str | None
    cxx11_abi: bool
    cxx_standard: int
    include_dirs: tuple[Path, ...]
    library_dirs: tuple[Path, ...]
    libraries: frozenset[str]
    nvidia_library_dirs: tuple[Path, ...]
    pybind11_macros: tuple[tuple[str, str], ...]
    origin: TorchOrigin
    distribution: Path | None
    distribution_version: str | None
    identity: str


def installed_torch(search_path: Sequence[str] | None = None) -> InstalledTorch:
    """Find and read the PyTorch that an import would load.

    Args:
        search_path: folders in the form of ``sys.path``; None for what this interpreter itself would import.
    """
    location = locate_torch(search_path)
    if location is None:
        raise TorchwheelError(_not_installed(torch_leftovers(search_path)))
    root, found = location.root, location.distributions
    stated = read_stated_version(root / "version.py")
    version = stated.version or ""
    major, minor = parse_numbers(version, 2) or (0, 0)
    if not major:
        what = f"{root / 'version.py'} states no version of PyTorch"
        raise TorchwheelError(_unreadable_torch(what, f"__version__ is {stated.version!r}"))
    release = (major, minor)
    files = torch_files(root, release)
    origin = _torch_origin(location)
    try:
        abi = cxx11_abi(files, release)
        identity = _torch_identity(stated, files.libraries, with_times=origin is TorchOrigin.SOURCE_TREE)
    except OSError as failure:
        what = f"{failure.filename} cannot be read"
        raise TorchwheelError(_unreadable_torch(what, str(failure.strerror))) from None
    distribution = _matching_distribution(found, version)
    return InstalledTorch(
        root=root,
        site_packages=location.site_packages,
        version=version,
        release=release,
        cuda=stated.cuda,
        hip=stated.hip,
        cxx11_abi=abi,
        cxx_standard=cxx_standard(files, version),
        include_dirs=files.include_dirs,
        library_dirs=files.library_dirs,
        libraries=frozenset(files.libraries),
        nvidia_library_dirs=nvidia_library_dirs(location.site_packages),
        pybind11_macros=pybind11_macros(files.library_dirs, release),
        origin=origin,
        distribution=distribution.folder if distribution else None,
        distribution_version=distribution.version if distribution else None,
        identity=identity,
    )


def read_stated_version(path: Path) -> TorchVersion:
    """Read a ``version.py``."""
    try:
        with path.open("rb") as stream:
            source = stream.read(_VERSION_FILE_LIMIT)
    except OSError as error:
        unbuilt = (
            "the build writes this file: the source tree is not built, or the installation is incomplete"
        )
        why = str(error.strerror) if exists(path) else unbuilt
        raise TorchwheelError(_unreadable_torch(f"{path} cannot be read", why)) from None
    try:
        return parse_torch_version(source, str(path))
    except TorchwheelError as error:
        raise TorchwheelError(_unreadable_torch(f"{path} is damaged", error.problems[0].what)) from None


def _matching_distribution(found: Sequence[TorchDistribution], version: str) -> TorchDistribution | None:
    """Return the metadata of this version, else the first, so that the difference can be reported."""
    public = version.partition("+")[0]
    same = (d for d in found if d.version is not None and d.version.partition("+")[0] == public)
    return next(same, found[0] if found else None)


def _torch_origin(location: TorchLocation) -> TorchOrigin:
    if location.editable or is_source_tree(location.root):
        return TorchOrigin.SOURCE_TREE
    installers = {distribution.installer for distribution in location.distributions}
    recorded = any(distribution.recorded for distribution in location.distributions)
    packaged = "conda" in installers or (recorded and installers.isdisjoint(_SYSTEM_INSTALLERS))
    return TorchOrigin.PACKAGE if packaged else TorchOrigin.SYSTEM


def _torch_identity(stated: TorchVersion, files: dict[str, Path], *, with_times: bool) -> str:
    """Version, commit and the libraries' sizes; times only if libraries are rebuilt in place.

    An isolated build environment has the same wheel with new times in every build.
    """
    parts = [str(stated.version), str(stated.git_version)]
    for name, status in ((name, path.stat()) for name, path in sorted(files.items())):
        time = f"@{status.st_mtime_ns}" if with_times else ""
        parts.append(f"{name}={status.st_size}{time}")
    return " ".join(parts)


def _not_installed(leftovers: Sequence[Path]) -> Problem:
    if leftovers:
        return Problem.of("torch-unreadable/leftovers", folder=leftovers[0])
    return Problem.of("torch-not-installed")


def _unreadable_torch(what: str, why: str) -> Problem:
    return Problem.of("torch-unreadable", what=what, why=why)


def torch_findings(torch: InstalledTorch) -> Iterator[Finding]:
    """Find missing headers and libraries, and metadata of another version."""
    if not torch.include_dirs:
        yield error(
            Problem.of(
                "torch-without-headers", torch=torch.version, root=torch.root, advice=_find_incomplete(torch)
            )
        )
    if missing := [name for name in _CORE if name not in torch.libraries]:
        yield error(
            Problem.of(
                "torch-without-libraries",
                torch=torch.version,
                root=torch.root,
                libraries=", ".join(missing),
                advice=_find_incomplete(torch),
            )
        )
    stated = torch.distribution_version
    if stated is not None and not _same_version(stated, torch.version):
        yield warning(
            Problem.of(
                "torch-version-mismatch", origin=torch.distribution, torch=torch.version, stated=stated
            )
        )


def _find_incomplete(torch: InstalledTorch) -> str:
    if torch.origin is TorchOrigin.SYSTEM:
        return "install the package with its development files too: on Debian and Ubuntu, apt-get install libtorch-dev"
    if torch.origin is TorchOrigin.SOURCE_TREE:
        return "finish the build of that source tree"
    return _REINSTALL


def _same_version(stated: str, version: str) -> bool:
    """Whether two versions are equal, ignoring a label that only one of them has."""
    if stated == version:
        return True
    try:
        one, other = Version(stated), Version(version)
    except ValueError:
        return False
    labels = {one.local, other.local} - {None}
    return one.public == other.public and len(labels) < 2


def torch_architectures(torch: InstalledTorch) -> ArchitectureList | None:
    """The architectures of all kernels of a PyTorch; None for a build without CUDA, or without device code.

    Some kernels are there for one architecture only, such as those that need features of ``9.0a``: of PyTorch 2.14.1's
    475 kernels' files four have images for it. So an architecture counts that at least half as many images were made
    for as for the one with the most.

    The build manifest that torchwheel adds to wheels is read first, then the fat binaries in the libraries.
    ROCm's device code is not read.
    """
    if torch.cuda is None:
        return None
    found = _manifest_images(torch.distribution / "torchwheel.json") if torch.distribution else []
    if not found:
        libraries = (folder / name for folder in torch.library_dirs for name in _KERNELS)
        found = [
            (CodeTarget(one.architecture, one.kind is ImageKind.SASS, one.kind is ImageKind.PTX), one.count)
            for one in combine(
                image for library in libraries if is_file(library) for image in read_images(library)
            )
            if one.runs
        ]
    if not found:
        return None
    most = max(count for _, count in found)
    return ArchitectureList.of(target for target, count in found if 2 * count >= most)


def _manifest_images(path: Path) -> list[tuple[CodeTarget, int]]:
    """Read the images of the library of CUDA kernels from the manifest; none if it is missing or malformed."""
    try:
        with path.open("rb") as stream:
            document: Any = json.loads(stream.read(_MANIFEST_LIMIT))
        return [
            target
            for library in document["machine_code"]
            if library["library"].rpartition("/")[2] in _KERNELS
            for image in library["images"]
            for target in _stated_target(image)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _stated_target(image: Mapping[str, Any]) -> list[tuple[CodeTarget, int]]:
    """Read the target of one entry, as written by `CodeImage`; none for code that a driver cannot load by itself."""
    if image["kind"] not in _CODE_KINDS or image["relocatable"]:
        return []
    try:
        (target,) = parse_architectures(image["label"]).targets
    except TorchwheelError as error:
        raise ValueError(str(error)) from None
    return [(target, int(image["count"]))]
