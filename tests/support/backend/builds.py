"""Trees, front ends and what they left behind, for the tests that build real wheels."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from answered import answered
from places import MINITORCH

GENERATIONS = ("scikit-build-core", "setup.py")
# What is slow and of no interest here is left out.
QUICK = ("tests", "openmp", "mpi")
# A later day for every program, which Debian's package faketime has; without it the days are the same.
LATER = ("faketime", "-f", "+100d") if shutil.which("faketime") else ()
# What minitorch installs in any build.
HEADERS = {
    "ATen/Functions.h",
    "ATen/Tensor.h",
    "ATen/cuda/CUDAContext.h",
    "ATen/cuda/CUDAException.h",
    "c10/core/Allocator.h",
    "c10/core/Device.h",
    "c10/core/Scalar.h",
    "c10/core/ScalarType.h",
    "c10/core/Storage.h",
    "c10/macros/Export.h",
    "c10/util/Exception.h",
    "c10/util/intrusive_ptr.h",
    "torch/csrc/BuildSettings.h",
    "torch/csrc/Module.h",
    "torch/csrc/TensorObject.h",
    "torch/csrc/distributed/c10d/Backends.h",
}
MODULES = {"__config__.py", "__init__.py", "cuda/__init__.py", "distributed/__init__.py", "version.py"}
LICENSES = {"LICENSE", "third_party/miniblas/LICENSE"}

_BUILT = re.compile(
    r"^\[\d+/\d+\] Building (?:C|CXX|CUDA) object (?:\S*/)?CMakeFiles/\w+\.dir/(\S+)\.o$", re.MULTILINE
)


def clean_environment(cache: Path, **variables: str) -> dict[str, str]:
    """What a build needs from this process, without the settings that a developer may have in the shell."""
    kept = (
        "HOME",
        "LANG",
        "LD_LIBRARY_PATH",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "SYSTEMROOT",
        "TEMP",
        "TMPDIR",
    )
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    path = sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]
    return (
        environment
        | {"PATH": path, "TORCHWHEEL_CACHE_DIR": str(cache), "MAX_JOBS": "2", "COLUMNS": "10000"}
        | variables
    )


def run(
    *command: str | Path, cwd: Path, env: Mapping[str, str], timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    return answered(
        [str(part) for part in command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, timeout=timeout
    )


def without_privileges(*command: str | Path) -> list[str | Path]:
    """A command that may read and write only what permissions allow, also where root runs it."""
    if os.name == "nt" or os.geteuid() != 0:
        return [*command]
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv (util-linux), since root may read and write everything")
    less = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={less}", f"--inh-caps={less}", *command]


def check(*command: str | Path, cwd: Path, env: Mapping[str, str], timeout: float = 240) -> str:
    result = run(*command, cwd=cwd, env=env, timeout=timeout)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@cache
def _generation_maker() -> Callable[[str, Path], None]:
    made: Callable[[str, Path], None] = runpy.run_path(str(MINITORCH / "tools" / "make_generation.py"))[
        "make_generation"
    ]
    return made


def make_tree(generation: str, destination: Path) -> Path:
    """A clean copy of minitorch, of one of its generations, in a new folder."""
    _generation_maker()(generation, destination)
    return destination


def wrapper(folder: Path, tree: Path, **settings: str) -> Path:
    """A wrapper project around a tree, with settings as TOML text."""
    folder.mkdir(parents=True)
    lines = {
        "source": f"'{tree}'",
        "target": '"cpu"',
        "disable": json.dumps(QUICK),
        "package-version": '"2.14.1"',
    } | settings
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    (folder / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["torchwheel"]\nbuild-backend = "torchwheel.backend"\n\n[tool.torchwheel]\n{text}',
        encoding="utf-8",
    )
    return folder


def torchwheel(*arguments: str | Path) -> list[str]:
    """The command line, run by this interpreter."""
    return [sys.executable, "-m", "torchwheel.cli.main", *map(str, arguments)]


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file, and time of every folder, to prove that a tree was not written to."""
    return {
        path.relative_to(root).as_posix(): (0 if path.is_dir() else status.st_size, status.st_mtime_ns)
        for path in [root, *root.rglob("*")]
        for status in [path.lstat()]
    }


def log_of(cache: Path) -> Path:
    """The log of the latest build."""
    return Path((cache / "last-build.txt").read_text(encoding="utf-8"))


def logged(log: Path) -> list[str]:
    """The lines of a log, without their times."""
    return [line.partition("Z ")[2] for line in log.read_text(encoding="utf-8").splitlines()]


def compiled(cache: Path) -> list[str]:
    """The source files that the latest build compiled."""
    return sorted(_BUILT.findall("\n".join(logged(log_of(cache)))))


def cmake_cache(cache: Path) -> dict[str, str]:
    """The CMakeCache.txt of the latest build, read more simply than torchwheel reads it."""
    root = log_of(cache).parent
    build = root / "source" / "build" if (root / "source" / "setup.py").exists() else root / "build"
    lines = (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines()
    return dict(
        match.groups() for line in lines if (match := re.fullmatch(r"([A-Za-z_0-9]+):[A-Z]+=(.*)", line))
    )


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def read(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def dist_info(wheel: Path) -> str:
    return "-".join(wheel.name.split("-")[:2]) + ".dist-info"


def manifest(wheel: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(read(wheel, f"{dist_info(wheel)}/torchwheel.json"))
    return document


def recorded(wheel: Path) -> dict[str, str]:
    """RECORD: the hash of every file that it names."""
    rows = read(wheel, f"{dist_info(wheel)}/RECORD").decode().splitlines()
    return {name.strip('"'): digest for name, digest, _ in (row.rsplit(",", 2) for row in rows)}


def hashes(wheel: Path) -> dict[str, str]:
    """What RECORD must say of every file (PEP 376: itself without a hash)."""
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            digest = (
                base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            )
            found[name] = "" if name.endswith("/RECORD") else f"sha256={digest}"
    return found


def version_file(wheel: Path) -> dict[str, Any]:
    """What torch/version.py of a wheel says."""
    values: dict[str, Any] = {}
    exec(read(wheel, "torch/version.py"), values)
    return values


def new_environment(folder: Path, *paths: Path) -> Path:
    """The interpreter of a new virtual environment that also sees the packages in ``paths``."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    names = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", vars=names))
    (packages / "shared.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


PACKAGES = Path(sysconfig.get_path("purelib"))
"""This environment's packages; torchwheel, which is installed for development, is not among them."""

COMPUTES = """
import json, torch
a = torch.tensor([[1, 2], [3, 4]])
print(json.dumps([torch.__version__, torch.matmul(a, a).tolist(), torch.__file__]))
"""


def compute(python: Path, cwd: Path, cache: Path) -> list[Any]:
    """Version, product and place of the torch that an interpreter imports."""
    answer: list[Any] = json.loads(check(python, "-c", COMPUTES, cwd=cwd, env=clean_environment(cache)))
    return answer


def install(wheel: Path, folder: Path, cache: Path) -> Path:
    """The interpreter of a new environment in which a wheel is installed."""
    python = new_environment(folder)
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel)
    check(*pip, cwd=folder, env=clean_environment(cache))
    return python
