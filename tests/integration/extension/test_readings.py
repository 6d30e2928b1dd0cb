"""How often a build of extensions reads settings, machine, PyTorch and pyproject.toml, and plans, in each process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from extension.torch_releases import install

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="makes libraries as Linux has them")

# Counts calls in this process and in all that it starts; each appends a line when it ends.
SITECUSTOMIZE = """\
import atexit, json, os, sys
COUNTED = {
    ("toml.py", "read_toml"): "pyproject.toml",
    ("resolve.py", "load_settings"): "settings",
    ("this.py", "this_host"): "host",
    ("installed_torch.py", "installed_torch"): "torch",
    ("planning.py", "make_extension_plan"): "plan",
}
counts = {}
def count(frame, event, argument):
    if event == "call":
        code = frame.f_code
        name = COUNTED.get((os.path.basename(code.co_filename), code.co_name))
        if name == "pyproject.toml" and frame.f_locals["path"].name != name:
            return
        if name:
            counts[name] = counts.get(name, 0) + 1
@atexit.register
def write():
    sys.setprofile(None)
    if counts:
        with open(os.environ["COUNTS"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(counts) + "\\n")
sys.setprofile(count)
"""
MODULE = """\
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&definition); }
"""
PYPROJECT = '[project]\nname = "tiny"\nversion = "1.2"\n'
PROJECTS = {
    "tables": {
        "pyproject.toml": PYPROJECT
        + '[[tool.torchwheel.extension]]\nname = "tiny._C"\nsources = ["*.cpp"]\ntargets = ["h100"]\n'
    },
    "cmake": {
        "pyproject.toml": PYPROJECT,
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(tiny LANGUAGES CXX)\n"
        "find_package(TorchWheel REQUIRED)\ntorchwheel_add_extension(NAME tiny._C SOURCES *.cpp)\n",
    },
    "setup.py": {
        "pyproject.toml": PYPROJECT,
        "setup.py": "from setuptools import setup\n"
        "from torchwheel import CUDA_HOME, BuildExtension, CppExtension, include_paths\ninclude_paths()\n"
        'setup(packages=["tiny"], ext_modules=[CppExtension("tiny._C", ["module.cpp"])],\n'
        '      cmdclass={"build_ext": BuildExtension})\n',
    },
}
READ = {"pyproject.toml": 1, "settings": 1, "host": 1, "torch": 1}
PLANNED = {**READ, "plan": 1}


def counted(folder: Path, kind: str, calls: str) -> list[dict[str, int]]:
    """What each process read for these calls of the backend's hooks; the hooks' own process comes last."""
    site, project = folder / "site-packages", folder / "project"
    install(site)
    source = folder / "library.cpp"
    source.write_text("int registered;\n", encoding="utf-8")
    for path in (site / "torch/lib").iterdir():
        subprocess.run(["c++", "-shared", "-fPIC", "-o", path, source], check=True)
    (site / "sitecustomize.py").write_text(SITECUSTOMIZE, encoding="utf-8")
    files = {"module.cpp": MODULE, "tiny/__init__.py": "", **PROJECTS[kind]}
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {
        "PYTHONPATH": str(site),
        "TORCHWHEEL_CACHE_DIR": str(folder / "cache"),
        "TORCH_NO_COMPILER_WRAPPER": "1",
        "COUNTS": str(folder / "counts"),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"from torchwheel.extension import backend\n{calls}"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [dict(Counter(json.loads(line))) for line in (folder / "counts").read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("kind", "processes"),
    [
        # The hook plans for the wheel's name, and setuptools' process for what is there when its turn comes.
        ("tables", [PLANNED, PLANNED]),
        # The extensions are known to CMake, whose process plans. The hook itself needs the machine and PyTorch for the
        # build folder alone.
        ("cmake", [PLANNED, READ]),
        ("setup.py", [PLANNED, READ]),
    ],
)
def test_a_build_reads_everything_once_in_each_process_and_plans_once(
    tmp_path: Path, kind: str, processes: list[dict[str, int]]
) -> None:
    assert counted(tmp_path, kind, "backend.build_wheel('..')") == processes
