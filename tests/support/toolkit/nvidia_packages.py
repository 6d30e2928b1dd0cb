"""NVIDIA's compilers as PyPI has them: downloaded once, kept between runs, and asked what they compile."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

import platformdirs
from filelock import FileLock

_PROGRAMS = frozenset({"ptxas", "ptxas.exe", "nvcc", "nvcc.exe"})
_KEPT = _PROGRAMS | {"nvcc.profile", "host_config.h"}

# Assembles for anything: sm_30 is older than every architecture of the releases that are compared.
_EMPTY_MODULE = ".version 6.0\n.target sm_30\n.address_size 64\n"

# Each limit stands in the condition right before its complaint. The header has more conditions on
# __clang_major__, with complaints of their own, for the Clangs of other vendors.
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


@dataclass(frozen=True)
class Compilers:
    """What PyPI has of the compilers of one CUDA release; no nvcc before CUDA 13."""

    ptxas: Path
    nvcc: Path | None
    host_config: Path


def packages_of(version: str) -> tuple[str, ...]:
    """The packages that together hold the compilers and crt/host_config.h of a release, ``"12.9"``."""
    major = version.partition(".")[0]
    if int(major) < 13:
        return (f"nvidia-cuda-nvcc-cu{major}",)
    return ("nvidia-cuda-nvcc", "nvidia-cuda-crt")


@cache
def compilers_of(version: str) -> Compilers:
    """The compilers of a release, from the cache or else from PyPI, in the last update that it then has.

    Raises:
        RuntimeError: pip could not download a package; with its words.
    """
    files = {
        path.name.removesuffix(".exe"): path
        for package in packages_of(version)
        for path in _unpacked(package, version).rglob("*")
    }
    return Compilers(files["ptxas"], files.get("nvcc"), files["host_config.h"])


@cache
def has_toolkit_package(version: str) -> bool:
    """Whether PyPI has ``cuda-toolkit`` of a release; asked anew each time.

    Raises:
        RuntimeError: pip failed for another reason than that there is none; with its words.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            _download("cuda-toolkit", version, Path(folder))
        except RuntimeError as error:
            if "No matching distribution found" in str(error):
                return False
            raise
    return True


def release_of(program: Path) -> str:
    """The release that a compiler says it is of, ``"12.9"``."""
    (release,) = re.findall(r"\brelease (\d+\.\d+),", _asked(program, "--version"))
    return str(release)


def allowed_values(program: Path, option: str, kind: str) -> set[str]:
    """The numbers that ``--help`` allows for an option, ``{"90", "90a"}`` for the kind ``"sm"``."""
    lines = iter(_asked(program, "--help").splitlines())
    paragraph = next((line for line in lines if line.startswith(f"{option} ")), "")
    for line in lines:
        if line.startswith("--"):
            break
        paragraph += line
    return set(re.findall(rf"'{kind}_(\d+[af]?)'", paragraph))


def listed(nvcc: Path, option: str, kind: str) -> set[str]:
    """The numbers that nvcc answers to ``--list-gpu-arch`` or ``--list-gpu-code``."""
    return set(re.findall(rf"^{kind}_(\w+)$", _asked(nvcc, option), re.MULTILINE))


def assembled(ptxas: Path, numbers: Iterable[str], folder: Path) -> set[str]:
    """Those of the numbers, ``"120a"``, that ptxas makes machine code for; it works in ``folder``.

    Raises:
        RuntimeError: it failed for another reason than that it does not know the architecture.
    """
    source = folder / "empty.ptx"
    source.write_text(_EMPTY_MODULE, encoding="utf-8")
    taken = set()
    for number in numbers:
        command = [str(ptxas), f"--gpu-name=sm_{number}", str(source), "-o", str(folder / "empty.cubin")]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if answer.returncode == 0:
            taken.add(number)
        elif f"Value 'sm_{number}' is not defined for option 'gpu-name'" not in answer.stderr:
            raise RuntimeError(answer.stderr)
    return taken


def host_compilers(host_config: Path) -> HostCompilers:
    """The limits of a crt/host_config.h."""
    text = host_config.read_text(encoding="utf-8")
    (gcc,), (clang,), ((least, beyond),) = (
        pattern.findall(text) for pattern in (_GCC_LIMIT, _CLANG_LIMIT, _MSVC_LIMITS)
    )
    return HostCompilers(int(gcc), int(clang) - 1, (int(least), int(beyond) - 1))


def _asked(program: Path, option: str) -> str:
    command = [str(program), option]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def _unpacked(package: str, version: str) -> Path:
    """The folder of a package in the cache, which has that name only when everything is in it."""
    cache_folder = _cache_folder()
    cache_folder.mkdir(parents=True, exist_ok=True)
    folder = cache_folder / f"{package}-{version}"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=cache_folder) as working:
                wheel = _download(package, version, Path(working))
                _unpack(wheel, Path(working, "kept")).rename(folder)
    return folder


def _cache_folder() -> Path:
    chosen = os.environ.get("TEST_TORCHWHEEL_COMPILERS_CACHE")
    if chosen:
        return Path(chosen)
    return platformdirs.user_cache_path("torchwheel", appauthor=False) / "test-compilers"


def _unpack(wheel: Path, folder: Path) -> Path:
    """Unpack what is kept of a wheel; zipfile does not restore the executable bits."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if PurePosixPath(name).name in _KEPT:
                path = Path(archive.extract(name, folder))
                path.chmod(0o755 if path.name in _PROGRAMS else 0o644)
    return folder


def _download(package: str, version: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-cache-dir", "--no-deps", "--only-binary=:all:", f"--dest={folder}"]
    command += [f"{package}=={version}.*"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    if answer.returncode != 0:
        raise RuntimeError(answer.stderr)
    (wheel,) = folder.glob("*.whl")
    return wheel
