"""Runs CMake, with a command line made from the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from .env import BUILD_DIR, means_no

ROOT = Path(__file__).resolve().parents[2]

FORWARDED_PREFIXES = ("BUILD_", "USE_", "CMAKE_")
FORWARDED_SUFFIXES = ("EXITCODE", "EXITCODE__TRYRUN_OUTPUT")
# fmt: off
FORWARDED_NAMES = (
    "ATEN_THREADING", "BLAS", "CAFFE2_USE_MSVC_STATIC_RUNTIME", "CUDA_HOST_COMPILER",
    "CUDA_NVCC_EXECUTABLE", "CUDA_SEPARABLE_COMPILATION", "CUDNN_INCLUDE_DIR", "CUDNN_LIBRARY",
    "CUDNN_ROOT", "EXPERIMENTAL_SINGLE_THREAD_POOL", "INSTALL_TEST", "INTEL_MKL_DIR", "INTEL_OMP_DIR",
    "JAVA_HOME", "MKLDNN_CPU_RUNTIME", "MKL_THREADING", "MSVC_Z7_OVERRIDE", "Numa_INCLUDE_DIR",
    "Numa_LIBRARIES", "ONNX_ML", "ONNX_NAMESPACE", "OPENSSL_ROOT_DIR", "PYTHON_LIB_REL_PATH",
    "SELECTED_OP_LIST", "STATIC_DISPATCH_BACKEND", "TORCH_CUDA_ARCH_LIST", "TORCH_XPU_ARCH_LIST",
    "TRACING_BASED", "UBSAN_FLAGS", "WERROR", "WITH_BLAS",
)
# fmt: on
RENAMED = {
    "_GLIBCXX_USE_CXX11_ABI": "GLIBCXX_USE_CXX11_ABI",
    "CUDNN_LIB_DIR": "CUDNN_LIBRARY",
    "USE_CUDA_STATIC_LINK": "CAFFE2_STATIC_LINK_CUDA",
}
# These count only where the variable on the right is not set itself.
LOW_PRIORITY_ALIASES = {
    "CUDA_HOST_COMPILER": "CMAKE_CUDA_HOST_COMPILER",
    "CUDAHOSTCXX": "CUDA_HOST_COMPILER",
    "CMAKE_CUDA_HOST_COMPILER": "CUDA_HOST_COMPILER",
    "CMAKE_CUDA_COMPILER": "CUDA_NVCC_EXECUTABLE",
    "CUDACXX": "CUDA_NVCC_EXECUTABLE",
}


def build_options(environment: Mapping[str, str], version: str) -> dict[str, str]:
    """The CMake variables for a build in this environment.

    Exits with 1 if the environment sets CMAKE_INSTALL_PREFIX: the install folder is always torch/.
    """
    options = {
        option: environment[name] for name, option in LOW_PRIORITY_ALIASES.items() if name in environment
    }
    for name, value in environment.items():
        if name in RENAMED:
            options[RENAMED[name]] = value
        elif (
            name in FORWARDED_NAMES
            or name.startswith(FORWARDED_PREFIXES)
            or name.endswith(FORWARDED_SUFFIXES)
        ):
            options[name] = value

    if "CMAKE_INSTALL_PREFIX" in options:
        print(
            "CMAKE_INSTALL_PREFIX should not be set in the environment: setup.py installs into torch/",
            file=sys.stderr,
        )
        sys.exit(1)
    prefixes = [sysconfig.get_path("purelib"), options.get("CMAKE_PREFIX_PATH", "")]
    return options | {
        "BUILD_PYTHON": "ON",
        "BUILD_TEST": "OFF" if means_no(environment.get("BUILD_TEST")) else "ON",
        "CMAKE_INSTALL_PREFIX": str(ROOT / "torch"),
        "CMAKE_PREFIX_PATH": ";".join(filter(None, prefixes)),
        "Python_EXECUTABLE": sys.executable,
        "TORCH_BUILD_VERSION": version,
        "USE_NUMPY": "OFF" if means_no(environment.get("USE_NUMPY")) else "ON",
    }


class CMake:
    """CMake in the tree's build folder."""

    def __init__(self) -> None:
        self.build_dir = ROOT / BUILD_DIR
        self.cache = self.build_dir / "CMakeCache.txt"
        generator = os.environ.get("CMAKE_GENERATOR")
        if generator is not None:
            self.use_ninja = generator.lower() == "ninja"
        else:
            self.use_ninja = not means_no(os.environ.get("USE_NINJA")) and shutil.which("ninja") is not None

    def generate(self, version: str, environment: Mapping[str, str], rerun: bool) -> None:
        """Configures, unless that was done before: a changed environment then needs ``rerun``."""
        if rerun:
            self.cache.unlink(missing_ok=True)
        if self.cache.exists() and (not self.use_ninja or (self.build_dir / "build.ninja").exists()):
            return
        self.build_dir.mkdir(exist_ok=True)
        options = sorted(build_options(environment, version).items())
        generator = ["-GNinja"] if self.use_ninja else []
        self._run([*generator, *(f"-D{name}={value}" for name, value in options), str(ROOT)], environment)

    def build(self, environment: Mapping[str, str]) -> None:
        """Builds everything and installs it into torch/."""
        arguments = ["--build", ".", "--target", "install", "--config", environment["CMAKE_BUILD_TYPE"]]
        jobs = environment.get("MAX_JOBS") or ("" if self.use_ninja else str(os.cpu_count()))
        if jobs:
            arguments += ["--parallel", jobs]
        self._run(arguments, environment)

    def _run(self, arguments: list[str], environment: Mapping[str, str]) -> None:
        command = ["cmake", *arguments]
        print(*command, flush=True)
        # CMake has said what is wrong: a traceback would only hide it.
        if subprocess.run(command, cwd=self.build_dir, env=environment).returncode != 0:
            sys.exit(1)
