"""Builds of sdists whose commands are recorded, and what commands.toml says of each sdist."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from answered import answered
from extension.compatibility.commands import Commands, read_commands
from extension.compatibility.recording import Recording
from torchwheel.system.toml import read_toml

_WITH_GPU = """\
import sys, torch
torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 1
torch.cuda.get_device_capability = lambda *given: (12, 0)
sys.argv, __file__ = ["setup.py", *sys.argv[1:]], "setup.py"
sys.path.insert(0, "")
with open(__file__, encoding="utf-8") as script:
    text = script.read()
exec(compile(text, __file__, "exec"))
"""
_FIND_TORCH = "import importlib.util; print(importlib.util.find_spec('torch').origin)"


@dataclass(frozen=True)
class Sdist:
    """One sdist of commands.toml, which says what its values are."""

    name: str
    version: str
    sha256: str
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    older: bool = False
    gpu: bool = False
    modules: int = 0
    objects: int = 0
    kernels: int | None = None
    stops: str = ""
    none: str = ""


@cache
def sdists() -> Mapping[str, Sdist]:
    """Name -> the sdist, in the file's order."""
    table = read_toml(Path(__file__).with_name("commands.toml"))["sdist"]
    return {entry["name"]: Sdist(**entry) for entry in table}


def record_build(
    python: str,
    source: Path,
    folder: Path,
    toolkit: str,
    environment: Mapping[str, str],
    *,
    arguments: Sequence[str] = (),
    gpu: bool = False,
) -> tuple[int, str, Commands]:
    """Build a project's extensions with its setup.py, and record what runs.

    Args:
        folder: gets the stand-ins and torchwheel's cache.
        gpu: whether the installed PyTorch says that there is a GPU.

    Returns:
        The exit status, what is printed, and the commands.
    """
    recording = Recording(folder, toolkit)
    variables = recording.variables(os.pathsep.join([str(Path(python).parent), environment["PATH"]]))
    script = ["-c", _WITH_GPU] if gpu else ["setup.py"]
    done = answered(
        [python, *script, "build_ext", *arguments],
        cwd=source,
        env={**environment, "TORCHWHEEL_CACHE_DIR": str(folder / "cache"), **variables},
        errors="replace",
    )
    torch = subprocess.check_output([python, "-c", _FIND_TORCH], cwd=folder, text=True).strip()
    roots = {"project": source, "cuda": Path(toolkit), "stand-in": recording.toolkit}
    roots |= {
        "programs": recording.programs,
        "torch": Path(torch).parent,
        "environment": Path(python).parents[1],
    }
    return done.returncode, done.stdout + done.stderr, read_commands(recording.commands(), roots)


def build_objects(
    python: str, source: Path, cache: Path, toolkit: str, environment: Mapping[str, str]
) -> dict[str, Path]:
    """Compile a project's extensions with its setup.py, and return the objects by source, without its suffix.

    Args:
        cache: gets torchwheel's cache.
    """
    search = os.pathsep.join([str(Path(python).parent), f"{toolkit}/bin", environment["PATH"]])
    # Compressed images cannot be compared, and a compiler cache would keep them.
    own = {"CUDA_HOME": toolkit, "NVCC_APPEND_FLAGS": "--no-compress", "TORCH_NO_COMPILER_WRAPPER": "1"}
    done = answered(
        [python, "setup.py", "build_ext"],
        cwd=source,
        env={**environment, **own, "PATH": search, "TORCHWHEEL_CACHE_DIR": str(cache)},
        errors="replace",
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    theirs = {
        str(path.relative_to(folder).with_suffix("")): path
        for folder in source.glob("build/temp*")
        for path in folder.rglob("*.o")
    }
    own_objects = {
        # Below the folder of the build, and of one of several extensions.
        str(path.relative_to(objects).with_suffix("").with_suffix("")): path
        for objects in (cache / "extensions").rglob("objects")
        for path in objects.rglob("*.o")
    }
    return theirs or own_objects
