"""What a step read and ninja does not watch: a change of it is built, in trees and in extensions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.builds import GENERATIONS, clean_environment, make_tree, run, torchwheel
from extension.projects import Built
from put import append, put

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="its programs are shell scripts, its linker GNU's"
)

OLD = 1_000_000_000
SOURCE = """
#include "linked.h"
#include "generated.h"
#if __has_include("read_optional.h")
#include "read_optional.h"
#else
#define OPTIONAL without
#endif
#ifdef VERSIONED
#include "versioned.h"
#else
#define VERSION none
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
extern "C" const char* read_static();
extern "C" const char* volatile read_state;
const char* volatile read_state =
    "read-state: " TEXT(LINKED) " " TEXT(GENERATED) " " TEXT(OPTIONAL) " " READ_TEXT " " READ_SHA " " TEXT(VERSION);
extern "C" const char* read_library();
extern "C" const char* read_library() { return read_static(); }
"""
CMAKE = """
file(READ "${CMAKE_CURRENT_SOURCE_DIR}/read.text" READ_TEXT)
add_custom_command(OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/generated.h"
  COMMAND "@OUTSIDE@/generate" "${CMAKE_CURRENT_BINARY_DIR}/generated.h" VERBATIM)
add_custom_target(read_generate DEPENDS "${CMAKE_CURRENT_BINARY_DIR}/generated.h")
add_dependencies(@TARGET@ read_generate)
target_include_directories(@TARGET@ PRIVATE "${CMAKE_CURRENT_BINARY_DIR}" "@OUTSIDE@/include")
target_compile_definitions(@TARGET@ PRIVATE READ_TEXT="${READ_TEXT}" READ_SHA="$ENV{GITHUB_SHA}")
target_link_directories(@TARGET@ PRIVATE "@OUTSIDE@/lib")
target_link_libraries(@TARGET@ PRIVATE readstatic)
"""
VERSIONED = """
add_custom_command(OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/versioned.h"
  COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/versioned.sh" "${CMAKE_CURRENT_BINARY_DIR}/versioned.h" VERBATIM)
add_custom_target(read_version DEPENDS "${CMAKE_CURRENT_BINARY_DIR}/versioned.h")
add_dependencies(@TARGET@ read_version)
target_compile_definitions(@TARGET@ PRIVATE VERSIONED)
"""


class Subject:
    """A tree or a CMake extension that reads in all these ways, its surroundings, and its last wheel."""

    def __init__(self, kind: str, root: Path) -> None:
        self.version = "2.14.1"
        self.kind, self.root, self.outside, self.project = kind, root, root / "outside", root / "project"
        for name in ("include", "lib", "tools"):
            (self.outside / name).mkdir(parents=True)
        self.variables = {"GITHUB_SHA": "sha0", "GENERATED": "value0"}
        self.program(0)
        self.library(0)
        for variant in (0, 1):
            self.write(f"linked{variant}.h", f"#define LINKED linked{variant}\n", OLD)
        if kind in GENERATIONS:
            make_tree(kind, self.project)
            source, described, target = "c10/util/Exception.cpp", "c10/CMakeLists.txt", "c10"
            script = 'echo "#define VERSION v${PYTORCH_BUILD_VERSION%%+*}" > "$1"\n'
            (self.project / "c10/versioned.sh").write_text(script)
        else:
            Built(root, "CMake")
            source, described, target = "csrc/bind.cpp", "CMakeLists.txt", "tiny._C"
        self.source = self.project / source
        append(self.source, SOURCE)
        with (self.project / described).open("a") as stream:
            text = CMAKE + (VERSIONED if kind in GENERATIONS else "")
            stream.write(text.replace("@OUTSIDE@", str(self.outside)).replace("@TARGET@", target))
        self.text = (self.project / described).with_name("read.text")
        self.text.write_text("text0")
        self.link = self.source.with_name("linked.h")
        self.link.symlink_to(self.outside / "linked0.h")

    def write(self, name: str, text: str, time: int = 0) -> Path:
        new = put(self.outside / "new", text)
        if time:
            os.utime(new, (time, time))
        return new.replace(self.outside / name)

    def program(self, variant: int) -> None:
        """The generator, replaced in place with an old time."""
        text = f'#!/bin/sh\necho "#define GENERATED program{variant}-$GENERATED" > "$1"\n'
        self.write("generate", text, OLD).chmod(0o755)

    def library(self, variant: int) -> None:
        """A static library, replaced by one with an old time."""
        source = self.write("static.c", f'const char* read_static() {{ return "static{variant}"; }}\n')
        subprocess.run(["cc", "-fPIC", "-c", source, "-o", self.outside / "static.o"], check=True)
        library = self.outside / "lib" / "libreadstatic.a"
        library.unlink(missing_ok=True)
        subprocess.run(["ar", "qc", library, self.outside / "static.o"], check=True)
        os.utime(library, (OLD, OLD))

    def build(self) -> dict[str, str]:
        """Build; what each of the ways left in the wheel."""
        out = self.root / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        environment = clean_environment(
            self.root / "cache", CCACHE_DIR=str(self.root / "ccache"), **self.variables
        )
        if self.kind in GENERATIONS:
            given = {
                "target": "cpu",
                "package-version": self.version,
                "build-env": "current",
                "disable": "tests,mpi,openmp",
            }
            words = [word for key, value in given.items() for word in ("-C", f"{key}={value}")]
            command, folder = torchwheel("build", self.project, *words, "-o", out), self.root
        else:
            environment |= {"PYTHONPATH": str(self.root / "site-packages"), "TORCH_NO_COMPILER_WRAPPER": "1"}
            code = f"from torchwheel.extension import backend\nbackend.build_wheel({str(out)!r}, {{'target': 'cpu'}})"
            command, folder = [sys.executable, "-c", code], self.project
        done = run(*command, cwd=folder, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        self.said = done.stdout + done.stderr
        with zipfile.ZipFile(next(out.glob("*.whl"))) as archive:
            content = b"".join(archive.read(name) for name in archive.namelist() if ".so" in name)
        state = re.search(rb"read-state: ([\w-]+) ([\w-]+) (\w+) (\w*) (\w*) ([\w.]+)\0", content)
        static = re.search(rb"static\d", content)
        assert state and static
        names = ("linked", "generated", "optional", "text", "sha", "version")
        return {
            **dict(zip(names, (part.decode() for part in state.groups()), strict=True)),
            "static": static[0].decode(),
        }


FIRST = {
    "linked": "linked0",
    "generated": "program0-value0",
    "optional": "without",
    "text": "text0",
    "sha": "sha0",
    "static": "static0",
    "version": "v2.14.1",
}


TREES = [pytest.param("scikit-build-core", marks=pytest.mark.long)]


@pytest.fixture(scope="module", params=[*TREES, "CMake extension"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    subject = Subject(request.param, tmp_path_factory.mktemp("read"))
    subject.state = FIRST if request.param in GENERATIONS else FIRST | {"version": "none"}
    assert subject.build() == subject.state
    return subject


def retarget(subject: Subject) -> None:
    subject.link.unlink()
    subject.link.symlink_to(subject.outside / "linked1.h")


CHANGES: dict[str, tuple[Callable[[Subject], object], dict[str, str]]] = {
    "a variable of a CI service": (lambda s: s.variables.update(GITHUB_SHA="sha1"), {"sha": "sha1"}),
    "a library that -l finds": (lambda s: s.library(1), {"static": "static1"}),
    "a link out of the project": (retarget, {"linked": "linked1"}),
    "what such a link leads to": (
        lambda s: s.write("linked1.h", "#define LINKED linked2\n", OLD),
        {"linked": "linked2"},
    ),
    "a generator's variable": (
        lambda s: s.variables.update(GENERATED="value1"),
        {"generated": "program0-value1"},
    ),
    "a generator": (lambda s: s.program(1), {"generated": "program1-value1"}),
    "a text that CMake reads": (lambda s: s.text.write_text("text1"), {"text": "text1"}),
    "a header that appears": (
        lambda s: s.write("include/read_optional.h", "#define OPTIONAL there\n", OLD),
        {"optional": "there"},
    ),
    "a header that disappears": (
        lambda s: (s.outside / "include/read_optional.h").unlink(),
        {"optional": "without"},
    ),
    "the version": (lambda s: setattr(s, "version", "2.14.2"), {"version": "v2.14.2"}),
}


def test_every_change_of_what_a_step_read_is_built(subject: Subject) -> None:
    """Each change after those before it; then nothing is left to do."""
    for change, (make, made) in CHANGES.items():
        make(subject)
        # An extension's is in no variable.
        subject.state = subject.state | {
            name: value for name, value in made.items() if subject.state[name] != "none"
        }
        assert (change, subject.build()) == (change, subject.state)
    assert subject.build() == subject.state
    if subject.kind in GENERATIONS:
        assert "nothing has changed since" in subject.said
    else:
        assert "ninja: no work to do" in subject.said
