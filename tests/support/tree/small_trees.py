"""Source trees that have just enough of PyTorch's shape to be taken for one."""

from __future__ import annotations

import os
from pathlib import Path

from answered import answered

SETUP_PY_PYPROJECT = """\
[build-system]
requires = ["setuptools", "numpy"]
# Use legacy backend to import local packages in setup.py
build-backend = "setuptools.build_meta:__legacy__"


[tool.black]
line-length = 88
"""

SCIKIT_BUILD_CORE_PYPROJECT = """\
[build-system]
requires = ["scikit-build-core>=1.0", "numpy"]
build-backend = "scikit_build_core.build"

[project]
name = "torch"
version = "2.14.1"
requires-python = ">=3.10"

[tool.scikit-build]
build-dir = "build"
"""

CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.27...4.0 FATAL_ERROR)
project(Torch CXX)
include(CMakeDependentOption)
option(USE_CUDA "Use CUDA" ON)
option(USE_DISTRIBUTED "Use distributed" ON)
cmake_dependent_option(USE_CUDNN "Use cuDNN" ON "USE_CUDA" OFF)
"""

_GIT_ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def write_tree(root: Path, pyproject: str | None = SETUP_PY_PYPROJECT) -> Path:
    """Write a tree of the generation that ``pyproject`` names; None leaves pyproject.toml out."""
    (root / "torch").mkdir(parents=True)
    (root / "version.txt").write_text("2.6.0a0\n", encoding="utf-8")
    (root / "CMakeLists.txt").write_text(CMAKE_LISTS, encoding="utf-8")
    (root / "setup.py").write_text("python_min_version = (3, 9, 0)\n", encoding="utf-8")
    if pyproject is not None:
        (root / "pyproject.toml").write_text(pyproject, encoding="utf-8", newline="")
    return root


def git(folder: Path, *arguments: str | Path) -> str:
    """Run git with nothing of the developer's own configuration."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments]
    result = answered(command, cwd=folder, env={**environment, **_GIT_ENVIRONMENT}, check=True)
    return result.stdout.strip()


def commit_all(folder: Path) -> str:
    """Make a repository of ``folder`` where it is none, commit what lies there and return the hash."""
    if not (folder / ".git").exists():
        git(folder, "init")
    git(folder, "add", "-A")
    git(folder, "commit", "--allow-empty", "-m", "work")
    return git(folder, "rev-parse", "HEAD")
