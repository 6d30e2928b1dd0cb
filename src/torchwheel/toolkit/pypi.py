"""CUDA toolkits from PyPI: the releases there, what to require of one, and the packages that are installed.

Since CUDA 13 NVIDIA's packages share one folder, ``nvidia/cu13``.
"""

from __future__ import annotations

import csv
import hashlib
import re
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.files import short_digest
from torchwheel.system.paths import find_below
from torchwheel.system.toml import shipped_toml
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.toolkit.cuda_toolkit import Toolkit, assumed_toolkit, in_range
from torchwheel.versions import ReleaseRange, major_minor

_FILE = Path(__file__).with_name("packages.toml")
_METAPACKAGE = "cuda-toolkit"
_COMPILER = "nvidia-cuda-nvcc"
_FOLDER = re.compile(r"cu(\d+)")
# The version may have a fourth number.
_UPDATE = re.compile(r"cuda_toolkit-(\d+\.\d+\.\d+)")
_NOT_PART = frozenset({".metadata", "__pycache__", ".."})


def nvcc_releases(platform_tag: str) -> tuple[str, ...]:
    """The CUDA releases with nvcc on PyPI for a platform, oldest first."""
    return tuple(r.version for r in read_toolkits() if r.pypi_nvcc and platform_tag in r.platforms)


def needed_packages(platform_tag: str) -> frozenset[str]:
    data = shipped_toml(_FILE)
    absent = data["linux-only"]["extras"] if platform_tag.startswith("win") else ()
    return frozenset(name for extra, name in data["distributions"].items() if extra not in absent)


def compiler_packages() -> frozenset[str]:
    data = shipped_toml(_FILE)
    return frozenset(data["distributions"][extra] for extra in data["compiler"]["extras"])


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
class RecordedPackage:
    """A distribution with files in a toolkit's folder, as RECORD has them: path -> ``sha256=`` and the hash."""

    name: str
    version: str
    files: Mapping[str, str]

    @property
    def digest(self) -> str:
        """SHA-256 of these files' RECORD entries: depends on the wheel, not on the installer."""
        lines = sorted(f"{path},{digest}\n" for path, digest in self.files.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True)
class InstalledPackages:
    """The packages that share one folder.

    Attributes:
        patch_release: the toolkit's own version, ``"13.0.1"``, from the package that requires them; None without it.
    """

    site_packages: Path
    folder: Path
    packages: tuple[RecordedPackage, ...]
    patch_release: str | None

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

    def toolkit(self, cache: Path) -> Toolkit:
        root = toolkits_folder(cache) / f"cuda-{self.release}-{self.identity}"
        return replace(
            assumed_toolkit(self.release, sysconfig.get_platform().replace("-", "_"), root),
            full_version=self.compiler_version,
            origin=f"packages in {self.site_packages}",
            identity=f"{self.compiler_version}:{self.identity}",
            patch_release=self.patch_release,
        )


def installed_packages(site_packages: Path) -> InstalledPackages | None:
    """Find the packages with the newest nvcc in a folder of Python packages; None without nvcc."""
    folders = [one for one in find_below(site_packages / "nvidia", "cu*") if _FOLDER.fullmatch(one.name)]
    for folder in sorted(folders, key=lambda one: int(one.name[2:]), reverse=True):
        packages = tuple(_packages_in(site_packages, f"nvidia/{folder.name}/"))
        if compiler := next((one.version for one in packages if one.name == _COMPILER), None):
            found = find_below(site_packages, f"cuda_toolkit-{major_minor(compiler)}.*.dist-info")
            update = next((match[1] for path in found if (match := _UPDATE.match(path.name))), None)
            return InstalledPackages(site_packages, folder, packages, update)
    return None


def _packages_in(site_packages: Path, place: str) -> Iterator[RecordedPackage]:
    """Yield NVIDIA's distributions with files in a folder; installers write RECORD last."""
    for folder in find_below(site_packages, "nvidia_*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        try:
            record = (folder / "RECORD").read_text(encoding="utf-8", errors="replace").replace("\\", "/")
        except OSError:
            continue
        if place in record:
            rows = (row[:2] for row in csv.reader(record.splitlines()) if len(row) == 3)
            own = {path: digest for path, digest in rows if path.startswith(place)}
            files = {
                path: digest for path, digest in own.items() if not _NOT_PART.intersection(path.split("/"))
            }
            yield RecordedPackage(name.replace("_", "-"), version, files)


def toolkits_folder(cache: Path) -> Path:
    return cache / "toolkits"


@dataclass(frozen=True)
class PackagedToolkit:
    toolkit: Toolkit
    site_packages: Path
    requirements: tuple[str, ...]


def packaged_toolkit(site_packages: Path, cache: Path, needed: Collection[str]) -> PackagedToolkit | None:
    """Describe the toolkit of the packages in a folder; None if one of the ``needed`` distributions is missing."""
    installed = installed_packages(site_packages)
    if installed is None or not installed.versions.keys() >= set(needed):
        return None
    requirements = tuple(f"{package.name}=={package.version}" for package in installed.packages)
    return PackagedToolkit(installed.toolkit(cache), site_packages, requirements)
