"""NVIDIA's compilers as PyPI has them: fetched once, kept, and asked what they compile."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

import platformdirs
from filelock import FileLock

from torchwheel.toolkit.releases import ToolkitRelease

CACHE_VARIABLE = "TORCHWHEEL_TEST_COMPILERS_CACHE"

# Their executable bits are lost in unpacking; nvcc.profile must lie beside nvcc.
_PROGRAMS = frozenset({"ptxas", "ptxas.exe", "nvcc", "nvcc.exe"})
_KEPT = _PROGRAMS | {"nvcc.profile", "host_config.h"}

# The least that any ptxas reads, for an architecture older than those of every compared release.
_EMPTY_MODULE = ".version 6.0\n.target sm_30\n.address_size 64\n"

_ALLOWED = re.compile(r"'([a-z]+)_(\d+[af]?)'")
_REFUSAL = "is not defined for option 'gpu-name'"

# The limits stand in the condition right before the complaint. Blank lines may lie between them. The same
# header limits other vendors' Clang too, with complaints of their own.
_GCC_LIMIT = re.compile(r"^#if __GNUC__ > (\d+)\s+#error -- unsupported GNU version!", re.MULTILINE)
_CLANG_LIMIT = re.compile(
    r"^#if \(__clang_major__ >= (\d+)\).*\s+#error -- unsupported clang version!", re.MULTILINE
)
_MSVC_LIMITS = re.compile(
    r"^#if _MSC_VER < (\d+) \|\| _MSC_VER >= (\d+)\s+#error -- unsupported Microsoft Visual Studio version!",
    re.MULTILINE,
)


@dataclass(frozen=True)
class HostCompilers:
    """What a crt/host_config.h lets pass, in the terms of ``ToolkitRelease``."""

    gcc_max: int
    clang_max: int
    msvc_range: tuple[int, int]


def packages_of(version: str) -> tuple[str, ...]:
    """The packages that together hold the compilers and crt/host_config.h of a CUDA release."""
    major = version.partition(".")[0]
    if int(major) < 13:
        return (f"nvidia-cuda-nvcc-cu{major}",)
    return ("nvidia-cuda-nvcc", "nvidia-cuda-crt")


@cache
def has_toolkit_package(version: str) -> bool:
    """Whether PyPI has ``cuda-toolkit`` of a CUDA release.

    Raises:
        AssertionError: pip failed for another reason than that there is none.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = _download(f"cuda-toolkit=={version}.*", Path(folder))
    assert answer.returncode == 0 or "No matching distribution found" in answer.stderr, answer.stderr
    return answer.returncode == 0


@cache
def compilers_of(version: str) -> Compilers:
    """The compilers in the last update of a CUDA release, from the cache or else from PyPI.

    Raises:
        AssertionError: pip could not download a package.
    """
    folders = [_unpacked(package, version) for package in packages_of(version)]
    found = {path.name.removesuffix(".exe"): path for folder in folders for path in folder.rglob("*.*")}
    found |= {path.name: path for folder in folders for path in folder.rglob("*") if path.name in _PROGRAMS}
    return Compilers(found)


def _cache_folder() -> Path:
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    return platformdirs.user_cache_path("torchwheel", appauthor=False) / "test-compilers"


def _unpacked(package: str, version: str) -> Path:
    """The folder with what is kept of a package; it appears under its name only when it is complete."""
    cache_folder = _cache_folder()
    cache_folder.mkdir(parents=True, exist_ok=True)
    folder = cache_folder / f"{package}-{version}"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=cache_folder) as working:
                answer = _download(f"{package}=={version}.*", Path(working))
                assert answer.returncode == 0, answer.stderr
                (wheel,) = Path(working).glob("*.whl")
                _unpack(wheel, Path(working, "kept")).rename(folder)
    return folder


def _unpack(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if PurePosixPath(name).name in _KEPT:
                path = Path(archive.extract(name, folder))
                path.chmod(0o755 if path.name in _PROGRAMS else 0o644)
    return folder


def _download(requirement: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-cache-dir", "--no-deps", "--only-binary=:all:", f"--dest={folder}", requirement]
    return subprocess.run(command, capture_output=True, text=True, check=False)
