"""A CUDA toolkit: read from the files of a folder, or assumed on a described machine."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from torchwheel.reporting.errors import refusal
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import find_below, is_closed, is_dir, is_file
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.versions import ReleaseRange, major_minor

# targets/ has one folder for each machine that the toolkit compiles for.
_NATIVE_TARGETS = {
    "x86_64": ("x86_64-linux",),
    "aarch64": ("sbsa-linux", "aarch64-linux"),
    "ppc64le": ("ppc64le-linux",),
}

# As the installers lay them out, then Windows, PyPI (nvidia/cu13/lib) and Debian (/usr).
_LIBRARY_FOLDERS = ("lib64", "lib/x64", "lib/arm64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")

# cuda.h is a megabyte long, and defines its version near the top.
_ENOUGH_OF_HEADER = 1 << 16

_HEADER_VERSION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+CUDA_VERSION\s+(\d+)", re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*")
# Up to 11.6 version.json has a date for the patch release: 11.4.20210623.
_PATCH_RELEASE = re.compile(r"\d+\.\d+\.\d{1,2}")

_VERSION_IN_NAME = re.compile(r"(?<![\d.])\d{2}\.\d+")


@dataclass(frozen=True)
class Toolkit:
    """One installed CUDA toolkit.

    Attributes:
        full_version: nvcc's own version, ``"13.0.88"``, if a file states it; else ``version``.
    """

    root: str
    version: str
    full_version: str
    nvcc: str | None
    include_dirs: tuple[str, ...]
    library_dir: str | None
    origin: str
    identity: str
    patch_release: str | None = None

    @property
    def bin_dir(self) -> str:
        """The folder of the compiler, present or not."""
        return str(path_of(self.root) / "bin" if self.nvcc is None else path_of(self.nvcc).parent)


class ToolkitPackage(NamedTuple):
    """A part of a toolkit, by the name of its package on PyPI or by NVIDIA's in version.json: ``cuda_cudart``."""

    name: str
    version: str
    is_from_pypi: bool


def path_of(text: str) -> PurePath:
    # A described machine may be of another platform, which its paths show.
    windows = PureWindowsPath(text)
    return windows if windows.drive else PurePosixPath(text)


def in_range(release: str, patch_release: str | None, allowed: ReleaseRange | None) -> bool | None:
    """Whether a toolkit is in a range; None if that depends on an unknown patch release.

    Each clause is compared at its own precision: ``<=12.9`` and ``==12.9.*`` accept any 12.9, ``>=12.8.1`` and
    ``==12.9.1`` compare the patch release.
    """
    answers: set[bool | None] = set()
    for clause in allowed.specifiers if allowed is not None else ():
        if clause.version.removesuffix(".*").count(".") < 2:
            answers.add(clause.contains(release))
        elif patch_release is not None:
            answers.add(clause.contains(patch_release))
        else:
            # Patch releases to consider; no CUDA release has had more.
            possible = {clause.contains(f"{release}.{patch}") for patch in range(10)}
            answers.add(possible.pop() if len(possible) == 1 else None)
    return False if False in answers else None if None in answers else True


def toolkit_at(path: str | os.PathLike[str], origin: str = "") -> Toolkit:
    """Read the CUDA toolkit in a folder, which may lack nvcc, or raise."""
    root = Path(path)
    if toolkit := read_toolkit(root, origin):
        return toolkit
    if is_closed(root):
        raise refusal("not-readable/named", origin=origin, path=root, reason=os.strerror(errno.EACCES))
    key = "not-a-toolkit" if is_dir(root) else "not-a-toolkit/missing"
    raise refusal(key, origin=origin, root=root)


def read_toolkit(root: Path, origin: str) -> Toolkit | None:
    include_dirs = tuple(_include_dirs(root))
    stated = _stated_versions(root)
    own, full_version = stated.get("cuda"), stated.get("cuda_nvcc") or _packaged_version(root)
    version = full_version or own or header_version(include_dirs)
    if version is None:
        return None
    release = major_minor(version)
    nvcc = compiler_in(root / "bin")
    full_version = full_version or release
    status = nvcc.stat() if nvcc else None
    identity = f"{status.st_size}:{status.st_mtime_ns}" if status else "no nvcc"
    return Toolkit(
        root=str(root),
        version=release,
        full_version=full_version,
        nvcc=None if nvcc is None else str(nvcc),
        include_dirs=tuple(str(folder) for folder in include_dirs),
        library_dir=_library_dir(root),
        origin=origin,
        identity=f"{full_version}:{identity}",
        patch_release=own if own and _PATCH_RELEASE.fullmatch(own) and major_minor(own) == release else None,
    )


def compiler_in(folder: Path) -> Path | None:
    return next((folder / name for name in ("nvcc", "nvcc.exe") if is_file(folder / name)), None)


def toolkit_packages(toolkit: Toolkit) -> tuple[ToolkitPackage, ...]:
    root = Path(toolkit.root)
    from_pypi = _version_document(root).get("packages")
    if isinstance(from_pypi, dict):
        found = [ToolkitPackage(name, str(version), True) for name, version in from_pypi.items()]
    else:
        stated = {name: version for name, version in _stated_versions(root).items() if name != "cuda"}
        found = [ToolkitPackage(name, version, False) for name, version in stated.items()]
    whole = ToolkitPackage("cuda-toolkit", toolkit.patch_release or toolkit.version, False)
    return (whole, *sorted(found))


def _version_document(root: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_beginning(root / "version.json"))
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _stated_versions(root: Path) -> dict[str, str]:
    """Read the versions in version.json: ``cuda`` is the toolkit's own, ``cuda_nvcc`` the compiler's."""
    parts = {name: part for name, part in _version_document(root).items() if isinstance(part, dict)}
    versions = {name: str(part.get("version", "")) for name, part in parts.items()}
    return {name: version for name, version in versions.items() if _VERSION.fullmatch(version)}


def _packaged_version(root: Path) -> str | None:
    """nvcc's version in site-packages, from the name of its package's metadata folder."""
    if root.parent.name != "nvidia":
        return None
    folders = find_below(root.parent.parent, "nvidia_cuda_nvcc-*.dist-info")
    versions = (folder.name.removesuffix(".dist-info").partition("-")[2] for folder in folders)
    return next((version for version in versions if root.name == f"cu{version.partition('.')[0]}"), None)


def header_version(include_dirs: Iterable[str | Path]) -> str | None:
    """The release in cuda.h: ``#define CUDA_VERSION 12090`` means 12.9; None without it."""
    for folder in include_dirs:
        if match := _HEADER_VERSION.search(read_beginning(Path(folder, "cuda.h"), _ENOUGH_OF_HEADER)):
            number = int(match[1])
            return f"{number // 1000}.{number % 1000 // 10}"
    return None


def _include_dirs(root: Path) -> Iterator[Path]:
    """Yield the folders with cuda.h or cuda_runtime.h, each real folder once."""
    seen = set()
    for folder in (root / "include", *(target / "include" for target in _native_targets(root))):
        real = os.path.realpath(folder)
        # NVIDIA's installers make include a link to the folder below targets.
        if real not in seen and any(is_file(folder / name) for name in ("cuda.h", "cuda_runtime.h")):
            seen.add(real)
            yield folder


def _library_dir(root: Path) -> str | None:
    folders = chain(
        (root / name for name in _LIBRARY_FOLDERS), (one / "lib" for one in _native_targets(root))
    )
    # /usr has such folders with and without CUDA.
    return next((str(one) for one in folders if find_below(one, "libcudart*", "cudart*.lib")), None)


def _native_targets(root: Path) -> tuple[Path, ...]:
    machine = os.uname().machine if hasattr(os, "uname") else ""
    targets = (root / "targets" / name for name in _NATIVE_TARGETS.get(machine, ()))
    return tuple(target for target in targets if is_dir(target))


def assumed_toolkit(version: str, platform_tag: str, root: str | os.PathLike[str] | None = None) -> Toolkit:
    """Describe a toolkit in the installer's layout for a platform, in the installer's folder or in ``root``."""
    windows = platform_tag.startswith("win")
    flavour: type[PurePath] = PureWindowsPath if windows else PurePosixPath
    usual = read_toolkits().default_roots["windows" if windows else "linux"]
    folder = flavour(os.fspath(root or usual.format(version=major_minor(version))))
    libraries = {"win_amd64": "lib/x64", "win_arm64": "lib/arm64"}.get(platform_tag, "lib64")
    return Toolkit(
        root=str(folder),
        version=major_minor(version),
        full_version=version,
        nvcc=str(folder / "bin" / ("nvcc.exe" if windows else "nvcc")),
        include_dirs=(str(folder / "include"),),
        library_dir=str(folder / libraries),
        origin="assumed",
        identity=f"{version}:assumed",
    )


def assumed_toolkit_at(root: str | os.PathLike[str], platform_tag: str) -> Toolkit | None:
    """Describe the toolkit in a folder whose name ends in a version (``v12.9``, ``cuda-12.9``)."""
    # Split by hand because the path may belong to another platform.
    *_, name = re.split(r"[\\/]", os.fspath(root).rstrip("\\/"))
    match = _VERSION_IN_NAME.search(name)
    return assumed_toolkit(match[0], platform_tag, root) if match else None
