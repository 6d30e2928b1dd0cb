"""What torch.utils.cpp_extension's own BuildExtension would run: the flags in the build.ninja that it writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from answered import answered, own_environment
from put import put_all

_SETUP = """\
from setuptools import setup
from {module} import BuildExtension, {extension}

setup(
    name="parity",
    version="1.0",
    py_modules=[],
    ext_modules=[{extension}("parity", {sources!r}, extra_compile_args={flags!r})],
    cmdclass={{"build_ext": BuildExtension}},
)
"""
TORCH, OWN = "torch.utils.cpp_extension", "torchwheel"


def objects(
    python: str, folder: Path, module: str, sources: Mapping[str, str], variables: Mapping[str, str]
) -> dict[str, Path]:
    """Build an extension with one of the two modules; the object of each source by its name without suffix."""
    _write(folder, module, {"cxx": ["-O3"], "nvcc": []}, sources)
    own = {"TORCHWHEEL_CACHE_DIR": str(folder / "cache"), "TORCH_NO_COMPILER_WRAPPER": "1", "MAX_JOBS": "2"}
    environment = {**_environment(python), **own, **variables}
    done = answered([python, "setup.py", "build_ext"], cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name.partition(".")[0]: path for path in folder.rglob("*.o")}


def _write(folder: Path, module: str, flags: Mapping[str, list[str]], sources: Mapping[str, str]) -> None:
    extension = "CUDAExtension" if "k.cu" in sources else "CppExtension"
    given: object = dict(flags) if "k.cu" in sources else flags["cxx"]
    text = _SETUP.format(module=module, extension=extension, sources=list(sources), flags=given)
    put_all(folder, {"setup.py": text, **sources})


def _environment(python: str) -> dict[str, str]:
    return own_environment(PATH=os.pathsep.join([str(Path(python).parent), os.environ["PATH"]]))
