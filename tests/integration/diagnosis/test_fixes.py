"""Fixes that can be executed are executed: the failing command, run as its diagnosis says, succeeds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from torchwheel.diagnosis.scanner import diagnose

PATH = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
HEADER = '#include "b.h"\nint {}() {{ return twice(1); }}\n'
FILES = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.4)\nproject(old LANGUAGES NONE)\n",
    "unused.cpp": "int main() { int unused; }\n",
    "b.h": "int twice(int x) { return 2 * x; }\n",
    "one.cpp": HEADER.format("one"),
    "two.cpp": HEADER.format("two"),
    "parallel.cpp": 'extern "C" int omp_get_max_threads();\nint main() { return omp_get_max_threads() < 1; }\n',
    "opt.cpp": "#include <optional>\nstd::optional<int> f();\nint main() {}\n",
}
# A command that fails; its id; what of the fixes is added to the command, or replaced in the header.
CASES = [
    (("cmake", "-B", "build"), "cmake-4-policies", r"`(CMAKE_\w+=[\d.]+)`"),
    (
        ("g++", "-Wall", "-Werror", "-c", "unused.cpp"),
        "warning-as-error",
        r"CXXFLAGS=(-Wno-error=[\w-]+)",
    ),
    (("g++", "-shared", "-fPIC", "one.cpp", "two.cpp"), "duplicate-symbol", r"make it `(inline)`"),
    (("g++", "parallel.cpp"), "undefined-symbol", r"(-fopenmp)\b"),
    (("g++", "-std=c++11", "-c", "opt.cpp"), "language-standard", r"CMAKE_CXX_STANDARD=(\d+)"),
]


def run(folder: Path, command: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": PATH, "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
    )


@pytest.mark.parametrize(
    ("command", "id", "fix"), CASES, ids=lambda one: one if isinstance(one, str) else one[0]
)
def test_a_command_succeeds_once_it_is_changed_as_its_diagnosis_says(
    command: tuple[str, ...], id: str, fix: str, tmp_path: Path
) -> None:
    if shutil.which(command[0], path=PATH) is None:
        pytest.skip(f"there is no {command[0]}")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    failed = run(tmp_path, command)
    cause = diagnose([failed.stdout]).cause
    assert failed.returncode != 0
    assert cause is not None
    assert cause.entry.id == id
    found = re.search(fix, "\n".join(cause.change))
    assert found is not None, cause.change
    if found[1] == "inline":
        (tmp_path / "b.h").write_text(f"inline {FILES['b.h']}", encoding="utf-8")
    elif found[1].startswith("CMAKE_"):
        command = ("env", found[1], *command)
    else:
        command = (*command, f"-std=c++{found[1]}" if found[1].isdigit() else found[1])
    shutil.rmtree(tmp_path / "build", ignore_errors=True)
    done = run(tmp_path, command)
    assert done.returncode == 0, done.stdout.decode()


@pytest.mark.network
@pytest.mark.parametrize(
    ("tool", "variable"),
    [
        (("pip", "wheel", "--no-deps", "-w", "out", "."), "PIP_BUILD_CONSTRAINT"),
        (("uv", "build", "--wheel", "-o", "out", "."), "UV_BUILD_CONSTRAINT"),
    ],
    ids=["pip", "uv"],
)
def test_a_build_constraint_brings_pkg_resources_back(
    tool: tuple[str, ...], variable: str, tmp_path: Path
) -> None:
    (tmp_path / "setup.py").write_text(
        "import pkg_resources, setuptools\nsetuptools.setup(name='x', version='1', py_modules=[])\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PATH": PATH}
    environment.pop(variable, None)
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            tool, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300
        )
        outputs.append((done.returncode, done.stdout))
        cause = diagnose([done.stdout]).cause
        text = "\n".join(cause.change) if cause else ""
        if wanted := re.search(rf"{variable}.*names a file with `(\S+)`", text):
            (tmp_path / "constraints.txt").write_text(wanted[1], encoding="utf-8")
            environment[variable] = "constraints.txt"
    assert [returncode == 0 for returncode, _ in outputs] == [False, True], outputs
