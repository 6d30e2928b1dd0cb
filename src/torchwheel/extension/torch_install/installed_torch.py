"""The installed PyTorch, read from its files: nothing of it is imported or run.

Importing it needs the libraries that it depends on, which a build environment may lack, and takes seconds. What
an extension has to know stands in ``torch/version.py``, in the metadata, headers and CMake files, and in the
libraries themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.torch_install.torch_abi import cxx11_abi, cxx_standard
from torchwheel.extension.torch_install.torch_binary import C10Build, read_c10_build
from torchwheel.extension.torch_install.torch_distribution import TorchDistribution, torch_distributions
from torchwheel.extension.torch_install.torch_layout import nvidia_library_dirs, read_layout
from torchwheel.extension.torch_install.torch_location import (
    TorchLocation,
    find_torch,
    locate_torch,
    torch_leftovers,
)
from torchwheel.versions import numbers
from torchwheel.wheel.torchversion import TorchVersion, parse_torch_version

__all__ = [
    "InstalledTorch",
    "TorchOrigin",
    "find_torch",
    "installed_torch",
    "read_installed_torch",
]

_VERSION_FILE_LIMIT = 1 << 16

# Of an interrupted or a second installation: PyTorch's wheels are replaced as a whole.
_REINSTALL = "install PyTorch again: pip install --force-reinstall --no-deps torch"

# What installers of distributions call themselves in INSTALLER.
_SYSTEM_INSTALLERS = ("rpm", "debian", "dpkg", "apt", "portage", "pacman", "nix")


class TorchOrigin(Enum):
    """How a PyTorch came to where it is."""

    WHEEL = "wheel"
    """Installed from a wheel, by pip or another installer."""
    EDITABLE = "editable"
    """An editable install: its Python files are those of a source tree."""
    CONDA = "conda"
    """A conda package."""
    SYSTEM = "system"
    """A package of the operating system, or ``setup.py install``."""
    BUILD_TREE = "build-tree"
    """A source tree that was built in place and is on the search path."""


@dataclass(frozen=True, kw_only=True)
class InstalledTorch:
    """One installed PyTorch.

    Attributes:
        root: the package's folder, ``.../site-packages/torch``: the one with what was built.
        site_packages: the folder with its metadata and the packages that it depends on.
        version: ``torch.__version__`` as ``version.py`` has it: ``2.14.1+cu130``.
        release: major and minor version: ``(2, 14)``.
        cuda: the CUDA version it was built with, ``13.0``; None for a build without CUDA.
        hip: the HIP version it was built with; None for a build without ROCm.
        debug: whether it is a debug build.
        git_version: commit of the source; None or ``Unknown`` where it is not known.
        cxx11_abi: ``_GLIBCXX_USE_CXX11_ABI``; without meaning where the C++ library is not GNU's.
        cxx11_abi_origin: what says so, for messages.
        cxx_standard: the C++ standard that its headers need: 17 or 20.
        include_dirs: folders of headers; empty where they are not installed.
        library_dirs: folders of libraries to link with.
        libraries: names of libraries there, as linkers know them: ``c10``, ``torch_cpu``.
        nvidia_library_dirs: folders of libraries of NVIDIA's packages beside it, for RPATH.
        host_compiler: the compiler that made libc10, ``gcc 13.3.1``; None where that does not tell.
        glibc: the GNU C library that libc10 needs, ``2.17``; larger libraries may need a newer one.
        origin: how it came here.
        distribution: its metadata, ``torch-2.14.1.dist-info``; None if there is none.
        distribution_version: the version that the metadata states; wheels on PyPI leave the label out.
        identity: a text that changes when this PyTorch changes, and is the same in every environment that the
            same wheel is installed in.
    """

    root: Path
    site_packages: Path
    version: str
    release: tuple[int, int]
    cuda: str | None
    hip: str | None
    debug: bool
    git_version: str | None
    cxx11_abi: bool
    cxx11_abi_origin: str
    cxx_standard: int
    include_dirs: tuple[Path, ...]
    library_dirs: tuple[Path, ...]
    libraries: frozenset[str]
    nvidia_library_dirs: tuple[Path, ...]
    host_compiler: str | None
    glibc: str | None
    origin: TorchOrigin
    distribution: Path | None
    distribution_version: str | None
    identity: str


def installed_torch(search_path: Sequence[str] | None = None) -> InstalledTorch:
    """Find and read the PyTorch that an import would load.

    Args:
        search_path: folders in the form of ``sys.path``, which is the default.

    Raises:
        TorchwheelError: there is none (``torch-not-installed``), or it is broken (``torch-unreadable``).
    """
    location = locate_torch(search_path)
    if location is None:
        raise TorchwheelError(_not_installed(torch_leftovers(search_path)))
    return _read(location)


def read_installed_torch(root: Path) -> InstalledTorch:
    """Read the PyTorch whose package is in ``root``.

    Raises:
        TorchwheelError: it is broken.
    """
    return _read(TorchLocation(root, root.parent, editable=False))


def _read(location: TorchLocation) -> InstalledTorch:
    root = location.root
    version_file = root / "version.py"
    stated = _version(version_file)
    version = stated.version or ""
    major, minor = numbers(version, 2) or (0, 0)
    if not major:
        raise TorchwheelError(
            _unreadable(f"{version_file} states no version of PyTorch", f"__version__ is {stated.version!r}")
        )
    release = (major, minor)
    layout = read_layout(root, release)
    distributions = torch_distributions(location.site_packages)
    origin = _origin(location, distributions)
    try:
        c10 = read_c10_build(layout.library_files["c10"]) if "c10" in layout.library_files else C10Build()
        changes_in_place = origin in (TorchOrigin.EDITABLE, TorchOrigin.BUILD_TREE)
        identity = _identity(stated, layout.library_files, with_times=changes_in_place)
    except OSError as error:
        raise TorchwheelError(_unreadable(f"{error.filename} cannot be read", str(error.strerror))) from None
    abi = cxx11_abi(layout, c10, release)
    distribution = _matching(distributions, version)
    return InstalledTorch(
        root=root,
        site_packages=location.site_packages,
        version=version,
        release=release,
        cuda=stated.cuda,
        hip=stated.hip,
        debug=bool(stated.debug),
        git_version=stated.git_version,
        cxx11_abi=abi.new,
        cxx11_abi_origin=abi.origin,
        cxx_standard=cxx_standard(layout, version),
        include_dirs=layout.include_dirs,
        library_dirs=layout.library_dirs,
        libraries=frozenset(layout.library_files),
        nvidia_library_dirs=nvidia_library_dirs(location.site_packages),
        host_compiler=c10.compiler,
        glibc=c10.glibc,
        origin=origin,
        distribution=distribution.folder if distribution else None,
        distribution_version=distribution.version if distribution else None,
        identity=identity,
    )


def _version(path: Path) -> TorchVersion:
    try:
        with path.open("rb") as stream:
            source = stream.read(_VERSION_FILE_LIMIT)
    except OSError as error:
        why = str(error.strerror)
        if not path.exists():
            why = (
                "the build writes this file: the source tree is not built, or the installation is incomplete"
            )
        raise TorchwheelError(_unreadable(f"{path} cannot be read", why)) from None
    try:
        return parse_torch_version(source, str(path))
    except TorchwheelError as error:
        raise TorchwheelError(_unreadable(f"{path} is damaged", error.problems[0].what)) from None


def _matching(found: Sequence[TorchDistribution], version: str) -> TorchDistribution | None:
    """The metadata of this version; where none is, the first, so that the difference can be told."""
    public = version.partition("+")[0]
    same = (d for d in found if d.version is not None and d.version.partition("+")[0] == public)
    return next(same, found[0] if found else None)


def _origin(location: TorchLocation, found: Sequence[TorchDistribution]) -> TorchOrigin:
    if location.editable or any(distribution.editable for distribution in found):
        return TorchOrigin.EDITABLE
    if (location.root.parent / "CMakeLists.txt").is_file():
        # `setup.py develop` leaves its metadata in the source tree.
        return TorchOrigin.EDITABLE if found else TorchOrigin.BUILD_TREE
    installers = {distribution.installer for distribution in found}
    if "conda" in installers:
        return TorchOrigin.CONDA
    if any(distribution.recorded for distribution in found) and installers.isdisjoint(_SYSTEM_INSTALLERS):
        return TorchOrigin.WHEEL
    return TorchOrigin.SYSTEM


def _identity(stated: TorchVersion, files: dict[str, Path], *, with_times: bool) -> str:
    """Version, commit and the libraries' sizes; times only where libraries are built anew in place.

    An isolated build environment has the same wheel under new times in every build.
    """
    parts = [str(stated.version), str(stated.git_version)]
    for name, path in sorted(files.items()):
        status = path.stat()
        parts.append(
            f"{name}={status.st_size}@{status.st_mtime_ns}" if with_times else f"{name}={status.st_size}"
        )
    return " ".join(parts)


def _not_installed(leftovers: Sequence[Path]) -> Problem:
    if leftovers:
        return _unreadable(
            f"{leftovers[0]} is no PyTorch: it has no __init__.py",
            "a removed or interrupted installation left it, and Python takes it for an empty package",
            f"delete {leftovers[0]}, then {_REINSTALL}",
        )
    return Problem(
        id="torch-not-installed",
        what="there is no PyTorch where the extension is built",
        remedy='add "torch" to build-system.requires in pyproject.toml; or install torch and the other build '
        "requirements, and build with --no-build-isolation",
        why="the extension is compiled against PyTorch's headers and libraries; an isolated build environment "
        "has only what build-system.requires names",
    )


def _unreadable(what: str, why: str, remedy: str = _REINSTALL) -> Problem:
    return Problem(id="torch-unreadable", what=what, remedy=remedy, why=why)
