"""Builds the libraries that setup.py then packs."""

from __future__ import annotations

import glob
import os
import sys

from .setup_helpers.cmake import CMake

CUDA_ON_WINDOWS = "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v*.*"


def build_environment() -> dict[str, str]:
    """The environment, in which CUDA_HOME has become what CMake looks at: CUDA_BIN_PATH."""
    environment = dict(os.environ)
    if "CUDA_HOME" in environment:
        environment["CUDA_BIN_PATH"] = environment["CUDA_HOME"]
    elif sys.platform == "win32":
        installed = glob.glob(CUDA_ON_WINDOWS)  # noqa: PTH207 (a pattern with a drive is none for Path.glob)
        if installed:
            environment["CUDA_BIN_PATH"] = installed[0]
    return environment


def build_pytorch(version: str, rerun_cmake: bool, cmake_only: bool) -> None:
    """Configures and, unless ``cmake_only``, builds and installs into torch/."""
    cmake = CMake()
    environment = build_environment()
    cmake.generate(version, environment, rerun_cmake)
    if not cmake_only:
        cmake.build(environment)
