"""Find and read the installed PyTorch by its files; importing it takes seconds and dependencies that may be missing."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from packaging.version import Version

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.this import is_isolated, site_packages
from torchwheel.reporting.errors import Finding, Problem, TorchwheelError, error, refusal, warning
from torchwheel.system.paths import exists, find_below, is_file
from torchwheel.versions import parse_numbers
from torchwheel.wheel.contents import TorchVersion, parse_torch_version, read_library, runnable_architectures
from torchwheel.wheel.fatbinary import combine, prevalent_images

_VERSION_FILE_LIMIT = 1 << 16


@dataclass(frozen=True, kw_only=True)
class InstalledTorch:
    """One installed PyTorch.

    Attributes:
        nvidia_library_dirs: the folders of shared libraries of NVIDIA's packages beside it.
        identity: a text that changes with this PyTorch, and is equal in every environment with the same wheel.
    """

    root: Path
    version: str
    cuda: str | None
    hip: str | None
    has_headers: bool
    nvidia_library_dirs: tuple[Path, ...]
    identity: str


@dataclass(frozen=True)
class TorchLocation:
    root: Path
    built_in_place: bool


def locate_torch(search_path: Sequence[str] | None = None) -> TorchLocation | None:
    """Locate the ``torch`` that an import would load; None if there is none.

    The finders of setuptools' and scikit-build-core's editable installs work too. In scikit-build-core's redirect mode
    the Python files stay in the source tree and the build outputs are in ``site-packages``; of a package's folders the
    one with ``version.py`` is used.
    """
    # The finders remember what a folder contains, and packages may have been installed there since.
    importlib.invalidate_caches()
    try:
        spec = (
            importlib.util.find_spec("torch")
            if search_path is None
            else PathFinder.find_spec("torch", list(search_path))
        )
    except ValueError:  # some tests put a module of that name without a spec into sys.modules
        spec = None
    if spec is None or spec.origin is None:
        return None
    imported = Path(spec.origin).parent
    folders = map(Path, spec.submodule_search_locations or ())
    root = next((folder for folder in folders if is_file(folder / "version.py")), imported)
    return TorchLocation(root, root != imported or is_file(root.parent / "CMakeLists.txt"))


def installed_torch(search_path: Sequence[str] | None = None) -> InstalledTorch:
    location = locate_torch(search_path)
    if location is None:
        raise refusal("torch-not-installed")
    root = location.root
    stated = read_stated_version(root / "version.py")
    if not parse_numbers(stated.version or "", 2):
        what = f"{root / 'version.py'} states no version of PyTorch"
        raise refusal("torch-unreadable", what=what, why=f"__version__ is {stated.version!r}")
    return InstalledTorch(
        root=root,
        version=str(stated.version),
        cuda=stated.cuda,
        hip=stated.hip,
        has_headers=is_file(root / "include" / "c10" / "macros" / "Macros.h"),
        nvidia_library_dirs=tuple(
            folder
            for folder in find_below(root.parent / "nvidia", "*/lib")
            if any(".so" in file.name for file in find_below(folder, "*"))
        ),
        identity=_torch_identity(stated, root, with_times=location.built_in_place),
    )


def read_stated_version(path: Path) -> TorchVersion:
    try:
        with path.open("rb") as stream:
            source = stream.read(_VERSION_FILE_LIMIT)
    except OSError as error:
        unbuilt = "the source tree is not built, or the installation is incomplete"
        why = str(error.strerror) if exists(path) else f"the build writes this file: {unbuilt}"
        raise refusal("torch-unreadable", what=f"{path} cannot be read", why=why) from None
    try:
        return parse_torch_version(source, str(path))
    except TorchwheelError as error:
        raise refusal("torch-unreadable", what=f"{path} is damaged", why=error.problems[0].what) from None


def _torch_identity(stated: TorchVersion, root: Path, *, with_times: bool) -> str:
    """Version, commit and the libraries' sizes; times only if libraries are rebuilt in place.

    An isolated build environment has the same wheel with new times.
    """
    parts = [str(stated.version), str(stated.git_version)]
    for file in find_below(root / "lib", "*"):
        if file.suffix in (".so", ".dylib", ".lib") and is_file(file):
            status = file.stat()
            parts.append(f"{file.name}={status.st_size}{f'@{status.st_mtime_ns}' if with_times else ''}")
    return " ".join(parts)


def torch_findings(torch: InstalledTorch) -> Iterator[Finding]:
    """Report missing headers, which some distributions have in a package of their own."""
    if not torch.has_headers:
        yield error(Problem.of("torch-without-headers", torch=torch.version, root=torch.root))


def torch_architectures(torch: InstalledTorch) -> ArchitectureList | None:
    """The architectures of all kernels of a PyTorch; None for a build without CUDA, or without device code.

    Some kernels are there for one architecture only, such as those that need features of ``9.0a``: of PyTorch 2.14.1's
    475 kernels' files four have images for it, so only prevalent ones count. ROCm's device code is not read.
    """
    if torch.cuda is None:
        return None
    libraries = (torch.root / "lib" / name for name in ("libtorch_cuda.so", "torch_cuda.dll"))
    images = (image for path in libraries if is_file(path) for image in read_library(path.name, path).images)
    return runnable_architectures(prevalent_images(combine(images)))


def bound_release(torch_version: str) -> str:
    """The release with the same ABI: ``2.14`` for ``2.14.1+cu130``, or one nightly, ``2.16.dev20261101``.

    Raises:
        ValueError: it is not a version.
    """
    built = Version(torch_version)
    # A developer's own build is 2.15.0a0+git, and no nightly.
    return f"{built.major}.{built.minor}" + (f".dev{built.dev}" if built.dev else "")


def front_end_findings(torch: InstalledTorch, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Warn if the build's PyTorch is not the one that the wheel will probably be used with.

    An isolated environment gets the newest PyTorch that ``build-system.requires`` allows, whatever is installed.
    """
    if not is_isolated():
        return
    for folder in _front_end_folders(environment):
        if (location := locate_torch([str(folder)])) is None:
            continue
        try:
            stated = read_stated_version(location.root / "version.py")
            own = (bound_release(stated.version or ""), stated.cuda)
        except (TorchwheelError, ValueError):
            continue
        if own != (bound_release(torch.version), torch.cuda):
            values = {"installed": stated.version, "folder": folder, "release": own[0]}
            yield warning(Problem.of("torch-of-another-environment", built=torch.version, **values))
        return


def _front_end_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """The package folders of pip's own environment, which pip removes from the search path; else of an active one."""
    searched = set(map(Path, sys.path))
    if active := environment.get("VIRTUAL_ENV"):
        yield site_packages(Path(active))
    for name in ("purelib", "platlib"):
        if (folder := Path(sysconfig.get_path(name))) not in searched:
            yield folder
