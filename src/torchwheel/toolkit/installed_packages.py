"""NVIDIA's packages in a folder of Python packages: which ones, and what toolkit they make together.

From CUDA 13 on all of them put their files into one folder, ``nvidia/cu13``.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchwheel.versions import major_minor

_COMPILER = "nvidia-cuda-nvcc"
_FOLDER = re.compile(r"cu(\d+)")
_DIGITS = 12


@dataclass(frozen=True)
class InstalledPackages:
    """The packages that share one folder.

    Attributes:
        site_packages: the folder of Python packages.
        folder: the packages' own, ``nvidia/cu13`` in it.
        versions: distribution -> version, of all that have files there.
    """

    site_packages: Path
    folder: Path
    versions: Mapping[str, str]

    @property
    def compiler_version(self) -> str:
        """nvcc's version, ``"13.0.88"``."""
        return self.versions[_COMPILER]

    @property
    def release(self) -> str:
        """The CUDA release, ``"13.0"``: NVIDIA counts nvcc's versions by it."""
        return major_minor(self.compiler_version)

    @cached_property
    def identity(self) -> str:
        """12 hexadecimal digits: the same for the same packages, wherever they are installed."""

        # A cache folder may be shared by machines of several kinds.
        facts = [sysconfig.get_platform(), *sorted("==".join(item) for item in self.versions.items())]
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:_DIGITS]


def installed_packages(site_packages: Path) -> InstalledPackages | None:
    """The packages with the newest nvcc in a folder of Python packages; None if none has nvcc."""
    found = [
        packages
        for folder in (site_packages / "nvidia").glob("cu*")
        if _FOLDER.fullmatch(folder.name)
        and (packages := _in_folder(site_packages, folder))
        and _COMPILER in packages.versions
    ]
    return max(found, key=lambda packages: int(packages.folder.name[2:]), default=None)


def _in_folder(site_packages: Path, folder: Path) -> InstalledPackages:
    owned = f"nvidia/{folder.name}/"
    return InstalledPackages(
        site_packages=site_packages,
        folder=folder,
        versions={
            name: version for name, version, record in _distributions(site_packages) if owned in record
        },
    )


def _distributions(site_packages: Path) -> Iterator[tuple[str, str, str]]:
    """NVIDIA's distributions: name, version, and RECORD, which installers write last."""
    for folder in sorted(site_packages.glob("nvidia_*.dist-info")):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        try:
            record = (folder / "RECORD").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        yield name.replace("_", "-"), version, record.replace("\\", "/")
