"""CUDA toolkits from PyPI: the available releases, the installed packages, and the toolkit assembled from them.

Their files are compared with RECORD.

Since CUDA 13 NVIDIA's packages share one folder, ``nvidia/cu13``. It lacks three things that nvcc, CMake and PyTorch
need: ``lib64``, which nvcc's own profile, PyTorch's FindCUDA and ``cpp_extension`` name; libraries without a version
in their names, for linkers; and a library to link for the driver.

That folder belongs to an environment that a frontend may delete after the build and whose path changes every time.
The assembled toolkit therefore has its own files, hard links if possible, in a folder named by the packages'
versions: the same packages give the same paths, and so hits in compiler caches.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from torchwheel.reporting.errors import Problem, TorchwheelError, refusal
from torchwheel.system.files import file_sha256, replace_path, short_digest
from torchwheel.system.locks import file_lock, lock_beside
from torchwheel.system.paths import exists, find_below, is_file
from torchwheel.system.toml import shipped_toml
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.toolkit.cuda_toolkit import PackagedToolkit, Toolkit, in_range
from torchwheel.toolkit.driver_stub import MACHINES, driver_functions, stub_library
from torchwheel.toolkit.read_toolkit import assumed_toolkit
from torchwheel.versions import ReleaseRange, major_minor, parse_numbers

_NOT_PART = frozenset({".metadata", "__pycache__", ".."})


@dataclass(frozen=True)
class RecordedPackage:
    """A distribution with files in a toolkit's folder."""

    name: str
    version: str
    record: str
    folder: str

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Path in the folder of Python packages -> ``sha256=`` and the hash; empty without one."""
        rows = (row for row in csv.reader(self.record.splitlines()) if len(row) == 3)
        return {
            path: digest
            for path, digest, _ in rows
            if path.startswith(f"{self.folder}/") and not _NOT_PART.intersection(path.split("/"))
        }

    @property
    def digest(self) -> str:
        """SHA-256 of these files' RECORD entries: depends on the wheel, not on the installer."""
        lines = sorted(f"{path},{digest}\n" for path, digest in self.files.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_file(package: RecordedPackage, file: Path, recorded: str) -> None:
    why = "it is missing"
    with suppress(FileNotFoundError):
        found = "sha256=" + base64.urlsafe_b64encode(file_sha256(file)).decode().rstrip("=")
        if found == recorded:
            return
        why = f"its hash is {found}, and RECORD says {recorded or 'none'}"
    raise refusal("toolkit-file-changed", file=file, package=package.name, version=package.version, why=why)


_FILE = Path(__file__).with_name("packages.toml")
_METAPACKAGE = "cuda-toolkit"
_COMPILER = "nvidia-cuda-nvcc"
_FOLDER = re.compile(r"cu(\d+)")
_UPDATE = re.compile(r"cuda_toolkit-(\d+\.\d+\.\d+)")

_COMPLETE = "version.json"
"""Written last, and read by torchwheel and CMake for the version."""

_VERSIONED_LIBRARY = re.compile(r"(?P<name>lib.+\.so)\.(?P<version>\d+(?:\.\d+)*)")
# The headers that declare functions of the driver's library.
_DRIVER_HEADERS = ("cuda.h", "cudaEGL.h", "cudaGL.h", "cudaProfiler.h", "cudaVDPAU.h")


def nvcc_releases(platform_tag: str) -> tuple[str, ...]:
    """The CUDA releases with nvcc on PyPI for a platform, oldest first."""
    return tuple(r.version for r in read_toolkits() if r.pypi_nvcc and platform_tag in r.platforms)


def needed_packages(platform_tag: str) -> frozenset[str]:
    absent = shipped_toml(_FILE)["linux-only"]["extras"] if platform_tag.startswith("win") else ()
    return frozenset(
        name for extra, name in shipped_toml(_FILE)["distributions"].items() if extra not in absent
    )


def compiler_packages() -> frozenset[str]:
    return frozenset(
        shipped_toml(_FILE)["distributions"][extra] for extra in shipped_toml(_FILE)["compiler"]["extras"]
    )


def requirements_for(version: str, allowed: ReleaseRange | None = None) -> tuple[str, ...]:
    """Return the PEP 508 requirement for a toolkit of a release from PyPI.

    ``cuda-toolkit`` itself names the versions of its packages, so they fit together. Any update of the release serves,
    because an index may lack one, and the packages are installed where nothing else is.
    """
    release, minor = read_toolkits().release(version), major_minor(version)
    # A release newer than the table was found in installed packages.
    if not read_toolkits().is_newer(version) and (release is None or not release.pypi_nvcc):
        raise TorchwheelError(without_nvcc(version))
    updates = f",{allowed}".replace(" ", "") if in_range(minor, None, allowed) is None else ""
    return (f"{_METAPACKAGE}[{','.join(shipped_toml(_FILE)['distributions'])}]=={minor}.*{updates}",)


def without_nvcc(version: str) -> Problem:
    release, minor = read_toolkits().release(version), major_minor(version)
    able = [release.version for release in read_toolkits() if release.pypi_nvcc]
    if release is None or not release.pypi:
        return Problem.of(
            "no-nvcc-on-pypi/release", package=_METAPACKAGE, cuda=minor, oldest=able[0], newest=able[-1]
        )
    return Problem.of("no-nvcc-on-pypi", cuda=minor, oldest=able[0])


@dataclass(frozen=True)
class InstalledPackages:
    """The packages that share one folder.

    Attributes:
        patch_release: the toolkit's own version, ``"13.0.1"``, from the package that requires them; None without it.
    """

    site_packages: Path
    folder: Path
    packages: tuple[RecordedPackage, ...]
    patch_release: str | None = None

    @property
    def versions(self) -> dict[str, str]:
        return {package.name: package.version for package in self.packages}

    @property
    def compiler_version(self) -> str:
        return self.versions[_COMPILER]

    @property
    def release(self) -> str:
        return major_minor(self.compiler_version)

    @property
    def identity(self) -> str:
        """12 hexadecimal digits that depend only on the packages, not on their place."""
        # A cache folder may be shared by machines of several platforms.
        facts = (f"{package.name}=={package.version} {package.digest}" for package in self.packages)
        return short_digest([sysconfig.get_platform(), *sorted(facts)])


def installed_packages(site_packages: Path) -> InstalledPackages | None:
    """Find the packages with the newest nvcc in a folder of Python packages; None without nvcc."""
    found = [
        installed
        for folder in find_below(site_packages / "nvidia", "cu*")
        if _FOLDER.fullmatch(folder.name)
        and (installed := _in_folder(site_packages, folder))
        and _COMPILER in installed.versions
    ]
    return max(found, key=lambda installed: int(installed.folder.name[2:]), default=None)


def _in_folder(site_packages: Path, folder: Path) -> InstalledPackages:
    place = f"nvidia/{folder.name}"
    packages = tuple(
        RecordedPackage(name, version, record, place)
        for name, version, record in _installed_distributions(site_packages)
        if f"{place}/" in record
    )
    compiler = next((package.version for package in packages if package.name == _COMPILER), "")
    metapackage = _installed_metapackage(site_packages, major_minor(compiler)) if compiler else None
    update = _UPDATE.match(metapackage.name) if metapackage else None
    return InstalledPackages(site_packages, folder, packages, update[1] if update else None)


def _installed_metapackage(site_packages: Path, release: str) -> Path | None:
    """Return the dist-info of a release's cuda-toolkit, whose version may have a fourth number; None without it."""
    found = find_below(site_packages, f"cuda_toolkit-{release}.*.dist-info")
    return next((path for path in found if _UPDATE.match(path.name)), None)


def _installed_distributions(site_packages: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and RECORD of NVIDIA's distributions; installers write RECORD last."""
    for folder in find_below(site_packages, "nvidia_*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        try:
            record = (folder / "RECORD").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        yield name.replace("_", "-"), version, record.replace("\\", "/")


def toolkit_of(installed: InstalledPackages, cache: Path) -> Toolkit:
    root = toolkits_folder(cache) / f"cuda-{installed.release}-{installed.identity}"
    return replace(
        assumed_toolkit(installed.release, sysconfig.get_platform().replace("-", "_"), root),
        full_version=installed.compiler_version,
        origin=f"packages in {installed.site_packages}",
        identity=f"{installed.compiler_version}:{installed.identity}",
        patch_release=installed.patch_release,
    )


def toolkits_folder(cache: Path) -> Path:
    return cache / "toolkits"


def packaged_toolkit(site_packages: Path, cache: Path, needed: Collection[str]) -> PackagedToolkit | None:
    """Describe the toolkit of the packages in a folder; None if one of the ``needed`` distributions is missing."""
    installed = installed_packages(site_packages)
    if installed is None or not installed.versions.keys() >= set(needed):
        return None
    requirements = tuple(f"{package.name}=={package.version}" for package in installed.packages)
    return PackagedToolkit(toolkit_of(installed, cache), site_packages, requirements)


def assemble_toolkit(site_packages: Path, cache: Path) -> Toolkit:
    """Assemble the toolkit of the packages in a folder, unless it exists.

    Any number of processes may do so at once; the folder gets its name when it is complete, and is never changed or
    removed afterwards. It has the files in RECORD, and each is compared with its hash there.
    """
    installed = installed_packages(site_packages)
    if installed is None:
        raise refusal("no-nvcc-in-packages", folder=site_packages)
    _require_single_release(installed)
    toolkit = toolkit_of(installed, cache)
    root = Path(toolkit.root)
    try:
        if not is_assembled(root):
            _assemble_folder(installed, root)
    except OSError as error:
        raise refusal("toolkit-not-assembled", folder=root, reason=error.strerror or error) from error
    return toolkit


def is_assembled(root: Path) -> bool:
    return is_file(root / _COMPLETE)


def _assemble_folder(installed: InstalledPackages, root: Path) -> None:
    with file_lock(lock_beside(root)):
        if is_assembled(root):
            return
        # Under the lock, either can only be left from a killed process or half deleted by a user.
        part = root.with_name(root.name + ".part")
        for leftover in (part, root):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            _link_files(installed, part)
            if sys.platform != "win32":
                _add_library_names(part)
                _add_driver_stub(part)
            _write_versions(installed, part)
            replace_path(part, root)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _link_files(installed: InstalledPackages, root: Path) -> None:
    """Link the files in RECORD, each compared with it; other files do not belong to the packages."""
    for package in installed.packages:
        for path, recorded in package.files.items():
            source, place = installed.site_packages / path, root / path.removeprefix(f"{package.folder}/")
            check_file(package, source, recorded)
            place.parent.mkdir(parents=True, exist_ok=True)
            # Two packages may contain the same file.
            if exists(place):
                continue
            # 2 GB of links take no space and 0.1 s, but the environment may be on another file system.
            try:
                os.link(source, place)
            except OSError:
                shutil.copy2(source, place)


def _add_library_names(root: Path) -> None:
    """Add ``lib64``, and for each ``libX.so.13`` a link ``libX.so``."""
    if not exists(root / "lib64"):
        # Relative, because the folder is renamed when it is complete.
        (root / "lib64").symlink_to("lib")
    versions: dict[str, tuple[tuple[int, ...], str]] = {}
    for file in sorted(path.name for path in (root / "lib").iterdir()):
        if match := _VERSIONED_LIBRARY.fullmatch(file):
            # As texts, 10 would come before 9.
            number = parse_numbers(match["version"])
            versions[match["name"]] = max(versions.get(match["name"], ((), "")), (number, file))
    for name, (_, newest) in versions.items():
        if not exists(root / "lib" / name):
            (root / "lib" / name).symlink_to(newest)


def _add_driver_stub(root: Path) -> None:
    """Add ``lib64/stubs/libcuda.so``, the path of NVIDIA's installers."""
    machine = os.uname().machine
    stub = root / "lib" / "stubs" / "libcuda.so"
    if machine not in MACHINES or exists(stub):
        return
    headers = [root / "include" / name for name in _DRIVER_HEADERS]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in headers if is_file(path)]
    functions = frozenset[str]().union(*(driver_functions(text) for text in texts))
    stub.parent.mkdir()
    stub.write_bytes(stub_library(functions, machine))


def _write_versions(installed: InstalledPackages, root: Path) -> None:
    """Write version.json like NVIDIA's installers, with their names of the parts, and the list of packages."""
    content = {
        "cuda_nvcc": {"name": "CUDA NVCC", "version": installed.compiler_version},
        "packages": dict(sorted(installed.versions.items())),
    }
    (root / _COMPLETE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _require_single_release(installed: InstalledPackages) -> None:
    """Refuse a compiler whose parts are of different CUDA releases.

    Only of those; most of NVIDIA's libraries count in numbers of their own.
    """
    parts = {
        name: installed.versions[name] for name in sorted(compiler_packages()) if name in installed.versions
    }
    if all(version.startswith(f"{installed.release}.") for version in parts.values()):
        return
    listed = ", ".join(f"{name} {version}" for name, version in parts.items())
    raise refusal(
        "toolkit-packages-mixed", folder=installed.site_packages, packages=listed, release=installed.release
    )
