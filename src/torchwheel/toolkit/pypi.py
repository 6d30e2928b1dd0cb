"""One CUDA toolkit made of PyPI's packages, in the shape that nvcc, CMake and PyTorch look for.

The packages lack three things: ``lib64``, which nvcc's own profile, PyTorch's FindCUDA and ``cpp_extension`` name;
libraries without a version in their names, which linkers look for; and a library to link for the driver.

Their folder belongs to an environment that a frontend may delete after the build, and whose path is another one
every time. The tree therefore has files of its own, as hard links where the file system can, and lies at a place
named by the packages' versions: whoever installs the same packages gets the same paths, and compiler caches know
the commands again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Collection, Iterator
from pathlib import Path

from torchwheel._files import file_lock
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.toolkit.driver_stub import MACHINES, driver_functions, stub_library
from torchwheel.toolkit.installed_packages import InstalledPackages, installed_packages
from torchwheel.toolkit.model import Toolkit
from torchwheel.toolkit.packages import packages as known_packages
from torchwheel.toolkit.sources import PackagedToolkit, toolkits_folder
from torchwheel.versions import numbers

_COMPLETE = "version.json"
"""Written last, and read by torchwheel and CMake for the version."""

_NOT_PART = frozenset({".metadata", "__pycache__"})
_VERSIONED_LIBRARY = re.compile(r"(?P<name>lib.+\.so)\.(?P<version>\d+(?:\.\d+)*)")
# The headers that declare functions of the driver's library.
_DRIVER_HEADERS = ("cuda.h", "cudaEGL.h", "cudaGL.h", "cudaProfiler.h", "cudaVDPAU.h")
_WINDOWS_LIBRARIES = {"win-amd64": "lib/x64", "win-arm64": "lib/arm64"}


def toolkit_of(packages: InstalledPackages, cache: Path) -> Toolkit:
    """The toolkit that installed packages make; it need not be assembled yet.

    Args:
        packages: the packages.
        cache: torchwheel's cache folder.
    """
    root = toolkits_folder(cache) / f"cuda-{packages.release}-{packages.identity}"
    windows = sys.platform == "win32"
    libraries = _WINDOWS_LIBRARIES.get(sysconfig.get_platform(), "lib/x64") if windows else "lib64"
    return Toolkit(
        root=str(root),
        version=packages.release,
        full_version=packages.compiler_version,
        nvcc=str(root / "bin" / ("nvcc.exe" if windows else "nvcc")),
        include_dirs=(str(root / "include"),),
        library_dir=str(root / libraries),
        origin=f"packages in {packages.site_packages}",
        identity=f"{packages.compiler_version}:{packages.identity}",
    )


def packaged_toolkit(site_packages: Path, cache: Path, needed: Collection[str]) -> PackagedToolkit | None:
    """The toolkit that the packages in a folder make; None if they do not make one.

    Args:
        site_packages: a folder of Python packages.
        cache: torchwheel's cache folder.
        needed: the distributions that must be there.
    """
    packages = installed_packages(site_packages)
    if packages is None or not packages.versions.keys() >= set(needed):
        return None
    return PackagedToolkit(toolkit_of(packages, cache), site_packages)


def assemble_toolkit(site_packages: Path, cache: Path) -> Toolkit:
    """Make the toolkit of the packages in a folder, unless it is there already.

    Any number of processes may do that at once; the tree appears under its name when it is complete, and is never
    changed or removed afterwards.

    Args:
        site_packages: a folder of Python packages.
        cache: torchwheel's cache folder.

    Raises:
        TorchwheelError: there is no nvcc among the packages, they are of several CUDA releases, or the tree cannot
            be written.
    """
    packages = installed_packages(site_packages)
    if packages is None:
        raise TorchwheelError(_no_compiler(site_packages))
    if problem := _mixed(packages):
        raise TorchwheelError(problem)
    toolkit = toolkit_of(packages, cache)
    root = Path(toolkit.root)
    if not is_assembled(root):
        try:
            _assemble(packages, root)
        except OSError as error:
            raise TorchwheelError(_not_written(root, error)) from error
    return toolkit


def is_assembled(root: Path) -> bool:
    """Whether a tree is complete."""
    return (root / _COMPLETE).is_file()


def _assemble(packages: InstalledPackages, root: Path) -> None:
    with file_lock(root.with_name(root.name + ".lock")):
        if is_assembled(root):
            return
        # Under the lock, either of them can only be what a process left that was killed, or a user half deleted.
        part = root.with_name(root.name + ".part")
        for leftover in (part, root):
            shutil.rmtree(leftover, ignore_errors=True)
        _link_tree(packages.folder, part)
        if sys.platform != "win32":
            _add_library_names(part)
            _add_driver_stub(part)
        _write_versions(packages, part)
        part.rename(root)


def _link_tree(source: Path, destination: Path) -> None:
    for folder, subfolders, files in os.walk(source):
        subfolders[:] = [name for name in subfolders if name not in _NOT_PART]
        place = destination / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in files:
            _link(Path(folder, name), place / name)


def _link(source: Path, destination: Path) -> None:
    """A hard link: 2 GB take no space and 0.1 s; a copy where the environment is on another file system."""
    try:
        os.link(source, destination)
    except OSError:
        shutil.copy2(source, destination)


def _add_library_names(root: Path) -> None:
    """``lib64``, and for each ``libX.so.13`` a link ``libX.so``."""
    if not (root / "lib64").exists():
        (root / "lib64").symlink_to("lib")
    for name, file in _unversioned(root / "lib"):
        if not (root / "lib" / name).exists():
            (root / "lib" / name).symlink_to(file)


def _unversioned(folder: Path) -> Iterator[tuple[str, str]]:
    """Name without version -> the file with the highest."""
    versions: dict[str, tuple[tuple[int, ...], str]] = {}
    for file in sorted(path.name for path in folder.iterdir()):
        if match := _VERSIONED_LIBRARY.fullmatch(file):
            number = numbers(match["version"])
            versions[match["name"]] = max(versions.get(match["name"], ((), "")), (number, file))
    for name, (_, file) in versions.items():
        yield name, file


def _add_driver_stub(root: Path) -> None:
    """``lib64/stubs/libcuda.so``, where NVIDIA's installers put theirs."""
    machine = os.uname().machine
    stub = root / "lib" / "stubs" / "libcuda.so"
    if machine not in MACHINES or stub.exists():
        return
    headers = [root / "include" / name for name in _DRIVER_HEADERS]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in headers if path.is_file()]
    functions = frozenset[str]().union(*(driver_functions(text) for text in texts))
    stub.parent.mkdir()
    stub.write_bytes(stub_library(functions, machine))


def _write_versions(packages: InstalledPackages, root: Path) -> None:
    """version.json as NVIDIA's installers write it, by their names of the parts; and what it is made of."""
    content = {
        "cuda_nvcc": {"name": "CUDA NVCC", "version": packages.compiler_version},
        "packages": dict(sorted(packages.versions.items())),
    }
    (root / _COMPLETE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _mixed(packages: InstalledPackages) -> Problem | None:
    """The compiler's parts and headers of two CUDA releases in one folder."""
    parts = {
        name: packages.versions[name]
        for name in sorted(known_packages().needed_to_compile())
        if name in packages.versions
    }
    if all(version.startswith(f"{packages.release}.") for version in parts.values()):
        return None
    listed = ", ".join(f"{name} {version}" for name, version in parts.items())
    return Problem(
        id="toolkit-packages-mixed",
        what=f"the CUDA packages in {packages.site_packages} are of several releases: {listed}",
        remedy="install them together, by the extras of one cuda-toolkit: "
        f"pip install 'cuda-toolkit[nvcc]=={packages.release}.*'",
        why="nvcc, its headers and the runtime's must be of one release",
    )


def _no_compiler(site_packages: Path) -> Problem:
    return Problem(
        id="no-nvcc-in-packages",
        what=f"there is no nvcc among the packages in {site_packages}",
        remedy="pip install 'cuda-toolkit[nvcc]==13.0.*' there, of the release that you need; CUDA 12 has no nvcc on "
        "PyPI: install NVIDIA's toolkit",
        why="nvidia-cuda-nvcc of CUDA 13 or later brings it, in nvidia/cu13/bin",
    )


def _not_written(root: Path, error: OSError) -> Problem:
    return Problem(
        id="toolkit-not-assembled",
        what=f"the CUDA toolkit cannot be put together in {root}: {error.strerror or error}",
        remedy="make room there, or name another cache folder with TORCHWHEEL_CACHE_DIR",
    )
