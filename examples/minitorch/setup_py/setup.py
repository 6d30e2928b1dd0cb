"""Builds minitorch with CMake into torch/ of this tree, then packs that: PyTorch's way up to 2.13.

Everything is set by environment variables: USE_*, BUILD_*, CMAKE_* and those that
tools/setup_helpers/cmake.py names; MAX_JOBS, DEBUG, REL_WITH_DEB_INFO, CUDA_HOME; PYTORCH_BUILD_VERSION
with PYTORCH_BUILD_NUMBER; TORCH_PACKAGE_NAME. CMake is not run again where it has run before: that takes --cmake or
CMAKE_FRESH=1. --cmake-only or CMAKE_ONLY=1 stops after it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from tools.build_pytorch_libs import build_pytorch
from tools.generate_torch_version import get_torch_version
from tools.setup_helpers.env import complete_environment, means_yes

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
WITHOUT_LIBRARIES = {"clean", "egg_info", "sdist"}
LIBRARY_FILES = ["bin/*", "include/**/*.h", "lib/*.dll", "lib/*.dylib", "lib/*.lib", "lib/*.so*", "test/*"]


def take_argument(name: str) -> bool:
    """Removes an argument that setuptools does not know; whether it was there."""
    found = name in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != name]
    return found


def check_submodules() -> None:
    """Exits with 1 if a submodule was not checked out."""
    for line in (ROOT / ".gitmodules").read_text(encoding="utf-8").splitlines():
        key, _, folder = (part.strip() for part in line.partition("="))
        if key == "path" and not (ROOT / folder / "CMakeLists.txt").is_file():
            sys.exit(f"{folder} is empty. Did you run 'git submodule update --init --recursive'?")


def build_libraries(version: str) -> None:
    """All that has to be there before setup() runs."""
    cmake_only = take_argument("--cmake-only") or means_yes(os.environ.get("CMAKE_ONLY"))
    rerun_cmake = take_argument("--cmake") or means_yes(os.environ.get("CMAKE_FRESH"))
    if not WITHOUT_LIBRARIES.isdisjoint(sys.argv):
        return
    # They are for this script: everything else that starts with CMAKE_ goes to CMake.
    for name in ("CMAKE_FRESH", "CMAKE_ONLY"):
        os.environ.pop(name, None)
    check_submodules()
    complete_environment()
    build_pytorch(version, rerun_cmake, cmake_only)
    if cmake_only:
        sys.exit()


def c_extension() -> Extension:
    """torch._C, which is only a door to libtorch_python."""
    origin = {"darwin": "@loader_path/lib", "win32": None}.get(sys.platform, "$ORIGIN/lib")
    return Extension(
        "torch._C",
        sources=["torch/csrc/stub.c"],
        include_dirs=["torch/include"],
        libraries=["torch_python"],
        library_dirs=["torch/lib"],
        extra_link_args=[f"-Wl,-rpath,{origin}"] if origin else [],
    )


class BuildExtensions(build_ext):
    """Takes functorch.so, which CMake has built and installed, as a module."""

    def build_extensions(self) -> None:
        module = Path(self.get_ext_filename("functorch._C"))
        built = module.with_name(f"functorch{module.suffix}")
        if built.is_file():
            target = Path(self.build_lib).resolve() / module
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(built), str(target))
        super().build_extensions()


@contextmanager
def bundled_licenses() -> Iterator[None]:
    """LICENSE with those of third_party/ behind it, for as long as the wheel is packed."""
    file = ROOT / "LICENSE"
    own = file.read_text(encoding="utf-8")
    with file.open("a", encoding="utf-8") as stream:
        for other in sorted((ROOT / "third_party").rglob("LICENSE")):
            text = other.read_text(encoding="utf-8")
            stream.write(f"\n\n{other.parent.relative_to(ROOT).as_posix()}:\n\n{text}")
    try:
        yield
    finally:
        file.write_text(own, encoding="utf-8")


class PackWheel(bdist_wheel):
    """Packs one license file that holds all of them."""

    def run(self) -> None:
        with bundled_licenses():
            super().run()


def main() -> None:
    version = get_torch_version()
    build_libraries(version)
    setup(
        name=os.environ.get("TORCH_PACKAGE_NAME", "torch"),
        version=version,
        description="minitorch: a small source tree of PyTorch's shape",
        long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
        long_description_content_type="text/markdown",
        license="BSD-3-Clause",
        license_files=["LICENSE", "third_party/**/LICENSE"],
        python_requires=">=3.10",
        packages=find_packages(include=["functorch", "torch", "torch.*"]),
        package_data={"torch": LIBRARY_FILES},
        include_package_data=False,
        # CMake builds the second one.
        ext_modules=[c_extension(), Extension("functorch._C", sources=[])],
        cmdclass={"bdist_wheel": PackWheel, "build_ext": BuildExtensions},
    )


if __name__ == "__main__":
    main()
