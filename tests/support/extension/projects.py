"""Small projects with extensions, in each of the three ways, and a PyTorch in little that they are linked with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from answered import answered
from extension.torch_releases import install
from extension.torch_trees import CUDA_LIBRARIES, TorchTree
from places import REPOSITORY
from put import put
from torchwheel.system.toml import read_toml

MODULE = """\
#include <Python.h>
#include "own.h"
#ifndef GIVEN
#define GIVEN nothing
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
const char* volatile mark = "mark: " TEXT(OWN) ", " TEXT(GIVEN) ";";
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&definition); }
"""
HEAD = """\
[build-system]
requires = []
build-backend = "torchwheel.extension.backend"
"""
PROJECT = '[project]\nname = "tiny"\nversion = "1.2"\n'
TABLE = """\
[[tool.torchwheel.extension]]
name = "tiny._C"
sources = ["csrc/*.cpp"]
include-dirs = ["include"]
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(tiny LANGUAGES CXX)
find_package(TorchWheel 0.1 REQUIRED)
torchwheel_add_extension(NAME tiny._C SOURCES csrc/*.cpp INCLUDE_DIRS include)
"""
SETUP_PY = """\
from setuptools import setup
from torchwheel import BuildExtension, CppExtension
extension = CppExtension("tiny._C", ["csrc/bind.cpp"], include_dirs=["include"])
setup(
    name="tiny", version="1.2", packages=["tiny"], ext_modules=[extension], cmdclass={"build_ext": BuildExtension}
)
"""
WAYS = {
    "tables": {"pyproject.toml": HEAD + PROJECT + TABLE},
    "CMake": {"pyproject.toml": HEAD + PROJECT, "CMakeLists.txt": CMAKE},
    "setup.py": {"pyproject.toml": HEAD, "setup.py": SETUP_PY},
}


CPU = TorchTree()
CUDA = TorchTree(version="2.14.1+cu130", cuda="13.0", libraries=CUDA_LIBRARIES)


class Built:
    """A project that is built; each wheel says what its module was compiled from.

    Args:
        folder: gets the project, the PyTorch, the wheels and torchwheel's cache.
        way: of describing the extension, a key of ``WAYS``, or ``setup.py alone``, under setuptools' own backend.
        torch: the PyTorch in little; None for none.
        project: the name of the project's folder.
    """

    def __init__(
        self, folder: Path, way: str, torch: TorchTree | None = CPU, project: str = "project"
    ) -> None:
        self.folder, self.project, self.packages = folder, folder / project, folder / "site-packages"
        self.backend = "setuptools.build_meta" if way == "setup.py alone" else "torchwheel.extension.backend"
        files = {"csrc/bind.cpp": MODULE, "include/own.h": "#define OWN first\n", "tiny/__init__.py": ""}
        described = {"setup.py": SETUP_PY} if way == "setup.py alone" else WAYS[way]
        for name, text in {**files, **described}.items():
            self.write(name, text)
        if torch is not None:
            # Its libraries are empty: to a linker, scripts in which nothing is.
            install(self.packages, torch)
        own = self.packages / "torchwheel-0.1.0.dist-info"
        put(own / "METADATA", "Metadata-Version: 2.1\nName: torchwheel\nVersion: 0.1.0\n")
        entries = read_toml(REPOSITORY / "pyproject.toml")["project"]["entry-points"].items()
        lines = (f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in one.items()) for group, one in entries)
        (own / "entry_points.txt").write_text("".join(lines), "utf-8")

    def write(self, name: str, text: str) -> Path:
        """Give a file of the project this content."""
        return put(self.project / name, text)

    def add(self, name: str, text: str) -> None:
        """Add to the end of a file of the project."""
        self.write(name, (self.project / name).read_text(encoding="utf-8") + text)

    def variables(self, **variables: str) -> dict[str, str]:
        """The environment of every process."""
        kept = {name: os.environ[name] for name in ("HOME", "PATH", "SYSTEMROOT") if name in os.environ}
        own = {
            "PYTHONPATH": str(self.packages),
            "TORCHWHEEL_CACHE_DIR": str(self.folder / "cache"),
            "COLUMNS": "10000",
            "TORCH_NO_COMPILER_WRAPPER": "1",
        }
        return {**kept, **own, **variables}

    def call(
        self, hook: str, config: dict[str, Any] | None = None, out: str = "out", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Call a hook with exactly these settings; its last line is the answer."""
        words = "" if hook.startswith("get_requires") else f"{str(self.folder / out)!r}, "
        code = f"import {self.backend} as b; print(b.{hook}({words}{config or {}!r}))"
        return self.run("-c", code, **variables)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the project."""
        return answered([sys.executable, *words], cwd=self.project, env=self.variables(**variables))

    def start(
        self,
        config: dict[str, Any] | None = None,
        out: str = "out",
        hook: str = "build_wheel",
        **variables: str,
    ) -> subprocess.Popen[str]:
        """Begin to build a wheel, or what else a hook makes, for the CPU."""
        (self.folder / out).mkdir(exist_ok=True)
        given = {"target": "cpu", **(config or {})}
        code = (
            f"from torchwheel.extension import backend\nbackend.{hook}({str(self.folder / out)!r}, {given!r})"
        )
        return subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=self.project,
            env=self.variables(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def said(
        self, config: dict[str, Any] | None = None, out: str = "out", **variables: str
    ) -> tuple[int, str]:
        """The exit status of building, and what it says."""
        process = self.start(config, out, **variables)
        text = process.communicate()[0]
        return process.returncode, text

    def mark(self, config: dict[str, Any] | None = None, out: str = "out", **variables: str) -> str:
        """Build, where no other wheel is; what the module in the wheel was compiled from."""
        for wheel in (self.folder / out).glob("*.whl"):
            wheel.unlink()
        status, text = self.said(config, out, **variables)
        assert status == 0, text
        return self.mark_in(out)

    def manifest(self, out: str = "out") -> dict[str, Any]:
        """The build manifest of the only wheel of a folder."""
        (wheel,) = (self.folder / out).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("torchwheel.json"))
            document: dict[str, Any] = json.loads(archive.read(name))
        return document

    def mark_in(self, out: str = "out") -> str:
        """What the module in the only wheel of a folder was compiled from."""
        (wheel,) = (self.folder / out).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (module,) = (name for name in archive.namelist() if name.startswith("tiny/_C."))
            found = re.search(rb"mark: ([^;]*);", archive.read(module))
        assert found
        return found[1].decode()
