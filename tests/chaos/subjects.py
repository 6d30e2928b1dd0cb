"""What random sequences are tried on: two trees and three extension projects, with all that decides their wheels."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

from backend.builds import clean_environment, make_tree, torchwheel
from chaos.world import Builder, Result, different
from extension.projects import HEAD, PROJECT, TABLE, Built

KINDS = ("setup.py tree", "scikit-build-core tree", "tables", "CMake extension", "setup.py extension")
PLACES = ("project", "moved")
CACHES = ("cache", "copy")
VARIABLES = ("CHAOS_FLAVOUR", "GITHUB_SHA", "CHAOS_GENERATED")
"""CMake files or setup.py compute the first one's name, and name the second; a generator reads the third."""

FLAGS = ("", "define", "response file", "linker's file")
SETTINGS = ("", "package-version", "jobs", "build-type")

_STATE = """
#include <chaos_outside.h>
#ifndef CHAOS_INSIDE
#define CHAOS_INSIDE none
#endif
#ifndef CHAOS_ENV
#define CHAOS_ENV none
#endif
#ifndef CHAOS_FOLDER
#define CHAOS_FOLDER none
#endif
#ifndef CHAOS_PACKAGE
#define CHAOS_PACKAGE none
#endif
#ifndef CHAOS_FLAGS
#define CHAOS_FLAGS none
#endif
#ifndef CHAOS_SHA
#define CHAOS_SHA none
#endif
#include "@LINKED@"
#if __has_include(<chaos_optional.h>)
#include <chaos_optional.h>
#else
#define CHAOS_OPTIONAL none
#endif
#ifdef CHAOS_GENERATES
#include <chaos_generated.h>
extern "C" const char* chaos_static();
extern "C" const char* chaos_library();
extern "C" const char* chaos_library() { return chaos_static(); }
#else
#define CHAOS_MADE none
#endif
#define CHAOS_TEXT_OF(x) #x
#define CHAOS_TEXT(x) CHAOS_TEXT_OF(x)
extern "C" const char* volatile chaos_state;
const char* volatile chaos_state = CHAOS_TEXT(CHAOS_OUTSIDE) CHAOS_TEXT(CHAOS_INSIDE) CHAOS_TEXT(CHAOS_ENV)
    CHAOS_TEXT(CHAOS_FOLDER) CHAOS_TEXT(CHAOS_PACKAGE) CHAOS_TEXT(CHAOS_FLAGS) CHAOS_TEXT(CHAOS_SHA)
    CHAOS_TEXT(CHAOS_LINKED) CHAOS_TEXT(CHAOS_OPTIONAL) CHAOS_TEXT(CHAOS_MADE);
asm(".pushsection .rodata\\n.incbin \\"@INCBIN@\\"\\n.popsection");
"""
_CMAKE = """
set(CHAOS_NAME FLAVOUR)
target_compile_definitions(@TARGET@ PRIVATE "CHAOS_ENV=env$ENV{CHAOS_${CHAOS_NAME}}")
if(IS_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/optional")
  target_compile_definitions(@TARGET@ PRIVATE CHAOS_FOLDER=folder)
endif()
find_package(ChaosPackage QUIET)
if(ChaosPackage_FOUND)
  target_compile_definitions(@TARGET@ PRIVATE CHAOS_PACKAGE=${CHAOS_PACKAGE_VALUE})
endif()
target_compile_definitions(@TARGET@ PRIVATE CHAOS_GENERATES "CHAOS_SHA=sha$ENV{GITHUB_SHA}")
add_custom_command(OUTPUT "${CMAKE_BINARY_DIR}/chaos_generated.h"
  COMMAND "@OUTSIDE@/generate" "${CMAKE_BINARY_DIR}/chaos_generated.h" VERBATIM)
add_custom_target(chaos_generate DEPENDS "${CMAKE_BINARY_DIR}/chaos_generated.h")
add_dependencies(@TARGET@ chaos_generate)
target_include_directories(@TARGET@ PRIVATE "${CMAKE_BINARY_DIR}")
target_link_directories(@TARGET@ PRIVATE "@OUTSIDE@")
target_link_libraries(@TARGET@ PRIVATE chaosstatic)
"""
_SETUP_PY = """\
import os
from glob import glob
from setuptools import setup
from torchwheel import BuildExtension, CppExtension
name = "FLAVOUR"
macros = [("CHAOS_ENV", "env" + os.environ.get("CHAOS_" + name, ""))]
if os.path.isdir("optional"):
    macros.append(("CHAOS_FOLDER", "folder"))
extension = CppExtension("tiny._C", sorted(glob("csrc/*.cpp")), include_dirs=["include"], define_macros=macros)
setup(
    name="tiny", version="1.2", packages=["tiny"], ext_modules=[extension], cmdclass={"build_ext": BuildExtension}
)
"""
_CMAKE_EXTENSION = """\
cmake_minimum_required(VERSION 3.20)
project(tiny LANGUAGES CXX)
find_package(TorchWheel 0.1 REQUIRED)
torchwheel_add_extension(NAME tiny._C SOURCES csrc/*.cpp INCLUDE_DIRS include)
"""
_OWN_FOLDERS = ("build", "tiny.egg-info", "__pycache__")
"""What setuptools makes in a project; a build that is fresh has none of it."""


class Subject(Builder):
    """A tree or project and its surroundings, which are moved, edited, attacked and built.

    Args:
        kind: one of ``KINDS``.
        root: an empty folder.
    """

    def __init__(self, kind: str, root: Path) -> None:
        self.kind = kind
        self.place, self.cache_name = PLACES[0], CACHES[0]
        self.setting, self.flags, self.variables = "", "", dict.fromkeys(VARIABLES, "")
        self.skipped: dict[str, str] = {}
        super().__init__(root, {})
        self.fresh_wheels: dict[str, Result] = {}
        (root / "outside").mkdir()
        (root / "prefix/lib/cmake").mkdir(parents=True)
        (root / "bin").mkdir()
        self.write_outside("chaos_outside.h", "#define CHAOS_OUTSIDE outside0\n")
        self.write_outside("flags.txt", "-DCHAOS_FLAGS=flags0\n")
        self.write_outside("link.txt", "--build-id=0x1000\n")
        for variant in range(3):
            self.write_outside(f"linked{variant}.h", f"#define CHAOS_LINKED linked{variant}\n")
        self.write_generator(0)
        self.write_library(0)
        self.is_tree = kind.endswith("tree")
        self.finds_packages = self.is_tree or kind == "CMake extension"
        self.seconds = 0.0
        self._make_project()

    @property
    def project(self) -> Path:
        """The source folder."""
        return self.root / self.place

    @property
    def cache(self) -> Path:
        """torchwheel's cache folder."""
        return self.root / self.cache_name

    @property
    def folder(self) -> Path:
        """Where frontends call a hook of an extension project."""
        return self.root if self.is_tree else self.project

    @property
    def editable_files(self) -> tuple[str, ...]:
        """The files that sequences edit: C++, a header, Python, the description, and what ``.incbin`` reads."""
        return tuple(self._texts)

    def _make_project(self) -> None:
        if self.is_tree:
            generation = self.kind.removesuffix(" tree")
            make_tree(generation, self.project)
            main, header, module = "c10/util/Exception.cpp", "c10/core/Device.h", "torch/cuda/__init__.py"
            self.described, self.sources, text = (
                "CMakeLists.txt",
                "c10/core",
                _CMAKE.replace("@TARGET@", "c10"),
            )
        else:
            way = {"tables": "tables", "CMake extension": "CMake", "setup.py extension": "setup.py"}[
                self.kind
            ]
            Built(self.root, way)
            main, header, module = "csrc/bind.cpp", "include/own.h", "tiny/__init__.py"
            self.sources = "csrc"
            self.described = {"tables": "pyproject.toml", "CMake": "CMakeLists.txt"}.get(way, "setup.py")
            text = {
                "tables": HEAD + PROJECT + TABLE,
                "CMake": _CMAKE_EXTENSION + _CMAKE.replace("@TARGET@", "tiny._C"),
                "setup.py": _SETUP_PY,
            }[way]
            (self.project / self.described).write_text("")
        text = text.replace("@OUTSIDE@", str(self.root / "outside"))
        own = "\n#include <c10/core/Device.h>\n" if self.is_tree else ""
        linked = Path(header).with_name("chaos_linked.h")
        (self.project / linked).symlink_to(self.root / "outside/linked0.h")
        linked_name = linked.as_posix().removeprefix("include/")
        incbin = f"{Path(header).parent}/chaos.bin"
        files = {
            main: own
            + _STATE.replace("@INCBIN@", incbin.removeprefix("include/")).replace("@LINKED@", linked_name),
            header: "",
            module: "",
            self.described: text,
            incbin: "",
        }
        lines = {
            main: 'extern const char chaos_main[]; const char chaos_main[] = "main@V@";\n',
            header: "#undef CHAOS_INSIDE\n#define CHAOS_INSIDE inside@V@\n",
            module: "CHAOS = 'python@V@'\n",
            self.described: "# description@V@\n",
            incbin: "data@V@\n",
        }
        self._texts, self.main, self.header, self.linked = {}, main, header, linked
        for name, more in files.items():
            file = self.project / name
            before = file.read_text(encoding="utf-8") if file.exists() else ""
            self._texts[name] = before + more + lines[name]
            self.edit(name, 0)

    def edit(self, name: str, variant: int) -> None:
        """Give a file one of its variants, which have one length."""
        file = self.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(self._texts[name].replace("@V@", str(variant)), encoding="utf-8")

    def write_generator(self, variant: int) -> Path:
        """Replace the program that a custom command runs."""
        text = f'#!/bin/sh\necho "#define CHAOS_MADE made{variant}$CHAOS_GENERATED" > "$1"\n'
        (self.root / "outside/generate").unlink(missing_ok=True)
        file = self.write_outside("generate", text)
        file.chmod(0o755)
        return file

    def write_library(self, variant: int) -> Path:
        """Replace the static library that -l finds."""
        folder, text = self.root / "outside", f'const char* chaos_static() {{ return "static{variant}"; }}\n'
        source, library = self.write_outside("static.c", text), folder / "libchaosstatic.a"
        library.unlink(missing_ok=True)
        subprocess.run(["cc", "-fPIC", "-c", source, "-o", folder / "static.o"], check=True)
        subprocess.run(["ar", "qcD", library, folder / "static.o"], check=True)
        return library

    def write_outside(self, name: str, text: str) -> Path:
        """Write a file beside the project that flags or variables name."""
        folder = self.root / "outside"
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    @property
    def command(self) -> list[str]:
        given = {"target": "cpu"}
        given |= {
            "package-version": {"package-version": "3.0"},
            "jobs": {"jobs": "1"},
            "build-type": {"build-type": "Debug"},
        }.get(self.setting, {})
        if self.is_tree:
            given = {
                "package-version": "2.14.1",
                "build-env": "current",
                "jobs": "2",
                "disable": "tests,mpi,openmp",
            } | given
            given |= self.skipped
            words = [word for key, value in given.items() for word in ("-C", f"{key}={value}")]
            return torchwheel("build", self.project, *words, "-o", self.out)
        given |= self.skipped
        code = f"from torchwheel.extension import backend\nbackend.build_wheel({str(self.out)!r}, {given!r})"
        return [sys.executable, "-c", code]

    def refresh(self) -> None:
        """Make the environment what the sequence has set."""
        self.out.mkdir(exist_ok=True)
        outside = self.root / "outside"
        # PyTorch's own BuildExtension reads no CXXFLAGS.
        name = "CFLAGS" if self.kind == "setup.py extension" else "CXXFLAGS"
        flags = {
            "": {},
            "define": {name: "-DCHAOS_FLAGS=defined"},
            "response file": {name: f"@{outside / 'flags.txt'}"},
            "linker's file": {"LDFLAGS": f"-Wl,@{outside / 'link.txt'}"},
        }[self.flags]
        own = {"CPATH": str(outside), "CMAKE_PREFIX_PATH": str(self.root / "prefix"), **flags}
        own |= {name: value for name, value in self.variables.items() if value}
        if not self.is_tree:
            own |= {"PYTHONPATH": str(self.root / "site-packages"), "TORCH_NO_COMPILER_WRAPPER": "1"}
        self.environment = clean_environment(self.cache, CCACHE_DIR=str(self.root / "ccache"), **own)
        if not self.is_tree:
            del self.environment["MAX_JOBS"]

    def build(self) -> Result:
        """Build with the cache as it is; what is missing now is meant to be missing."""
        self.refresh()
        result = super().build()
        if "[feature-lost]" not in result.output:
            return result
        self.skipped = {"skip-check": "feature-lost"}
        super().build()
        self.skipped = {}
        return super().build()

    def timed_build(self) -> Result:
        """Build, and remember how long it takes."""
        began = time.monotonic()
        result = self.build()
        self.seconds = time.monotonic() - began
        return result

    def fresh(self) -> Result:
        """The wheel of the same state in the same places, without a cache and without what setuptools left there."""
        key = self._state()
        if key not in self.fresh_wheels:
            aside = self.root / "aside"
            aside.mkdir()
            kept = [path for path in (self.project, self.cache, self.root / "ccache") if path.exists()]
            for path in kept:
                path.rename(aside / path.name)
            ignored = shutil.ignore_patterns(*_OWN_FOLDERS)
            shutil.copytree(aside / self.project.name, self.project, symlinks=True, ignore=ignored)
            try:
                self.fresh_wheels[key] = self.build()
            finally:
                for path in kept:
                    subprocess.run(["rm", "-rf", path], check=True)
                    (aside / path.name).rename(path)
                aside.rmdir()
        return self.fresh_wheels[key]

    def _state(self) -> str:
        """A digest of all that decides the wheel."""
        where = (self.place, self.cache_name)
        found = hashlib.sha256(repr((where, self.setting, self.flags, self.variables)).encode())
        for folder in (self.project, self.root / "outside", self.root / "prefix"):
            for path in sorted(folder.rglob("*")):
                name = path.relative_to(folder)
                if name.parts[0] in _OWN_FOLDERS:
                    continue
                content = os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
                mode = stat.S_IMODE(path.lstat().st_mode)
                found.update(repr((folder.name, str(name), mode, content)).encode("utf-8", "replace"))
        return found.hexdigest()

    def faults(self, result: Result, what: str = "the wheel") -> list[str]:
        """What is wrong with a build's result, by that of a fresh build; empty if nothing is."""
        expected = self.fresh()
        if expected.code != 0:
            return (
                []
                if result.code != 0
                else [f"{what} is there, and no fresh build makes one:\n{expected.output}"]
            )
        if result.code != 0:
            return [f"{what} was not built ({result.code}):\n{result.output[-3000:]}"]
        assert expected.wheel is not None
        others = different(result.wheel, expected.wheel)
        return [f"{what} is another one: {others}\n{result.output[-2000:]}"] if others else []

    def save(self, template: Path) -> None:
        """Keep all files, so that a sequence can begin with them."""
        subprocess.run(["cp", "-a", self.root, template], check=True)

    def restore(self, template: Path) -> None:
        """Begin anew with what was saved."""
        subprocess.run(["rm", "-rf", self.root], check=True)
        subprocess.run(["cp", "-a", template, self.root], check=True)
        self.place, self.cache_name = PLACES[0], CACHES[0]
        self.setting, self.flags, self.variables = "", "", dict.fromkeys(VARIABLES, "")
