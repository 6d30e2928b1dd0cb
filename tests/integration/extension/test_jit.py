"""``load`` and ``load_inline``: built once, by two processes at once too, and again after one that was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from extension.torch_build import TORCH, cuda_home
from extension.torch_objects import Object, read_object
from extension.torch_trees import NEW_STRING, install

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="a shared library by its name on Linux")
MODULE = """\
#include <Python.h>
#include <cassert>
#include "value.h"
static PyObject* answer(PyObject*, PyObject*) {
#ifdef NDEBUG
  return PyLong_FromLong(-1);
#endif
  return PyLong_FromLong(VALUE);
}
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tiny", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_tiny() { return PyModule_Create(&definition); }
"""
INLINE = MODULE.replace('#include "value.h"', "#define VALUE 5")
PROGRAM = """\
import json, sys, torchwheel
name, arguments = sys.argv[1], json.loads(sys.argv[2])
try:
    module = getattr(torchwheel, name)("tiny", **arguments)
    print(json.dumps([module.answer(), module.__file__]))
except RuntimeError as error:
    print(json.dumps([str(error), ""]))
"""
DECLARED = "int scale(int);"
KERNEL = """\
#include <cuda_runtime.h>
__global__ void scale_by(float* values, float factor) { values[threadIdx.x] *= factor; }
int scale(int count) {
  scale_by<<<1, count>>>(nullptr, 2.0f);
  return count;
}
"""
MODULES = (TORCH, "torchwheel")


class Program:
    """A program that loads an extension beside a PyTorch in little."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.variables: dict[str, str] = {}
        packages = folder / "site-packages"
        libraries = install(packages) / "lib"
        (packages / "torch/__init__.py").write_text("", "utf-8")
        code = f"void {NEW_STRING}(void) {{}}".encode()
        command = ["cc", "-shared", "-x", "c", "-", "-o", libraries / "libc10.so"]
        subprocess.run(command, input=code, check=True)
        self.source = folder / "csrc/tiny.cpp"
        self.source.parent.mkdir()
        self.source.write_text(MODULE, "utf-8")
        self.value(3)

    def value(self, value: int) -> None:
        """Change a header."""
        (self.source.parent / "value.h").write_text(f"#define VALUE {value}\n", "utf-8")

    def start(self, function: str = "load", **arguments: Any) -> subprocess.Popen[str]:
        """Begin to run the program."""
        given = arguments or {"sources": str(self.source)}
        kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        own = {
            "PYTHONPATH": str(self.folder / "site-packages"),
            "TORCHWHEEL_CACHE_DIR": str(self.cache),
            "TORCH_NO_COMPILER_WRAPPER": "1",
        }
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, function, json.dumps(given)],
            cwd=self.folder,
            env={**kept, **own, **self.variables},
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, function: str = "load", **arguments: Any) -> tuple[Any, str]:
        """What the module answers, and its path; or what went wrong."""
        with self.start(function, **arguments) as process:
            answer, path = json.loads(process.communicate()[0])
            return answer, path


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@LINUX
def test_it_is_compiled_once_and_again_after_a_change(program: Program) -> None:
    first = program.run()
    assert first[0] == 3
    (object_file,) = program.cache.rglob("*.o")
    made = object_file.stat().st_mtime_ns
    assert program.run() == first
    assert object_file.stat().st_mtime_ns == made
    program.value(4)
    assert program.run()[0] == 4
    # A module that another process has loaded stays as it is.
    assert Path(first[1]).is_file()


@LINUX
def test_texts_are_kept_by_their_content(program: Program) -> None:
    given = {"cpp_sources": INLINE, "no_implicit_headers": True}
    assert program.run("load_inline", **given)[0] == 5
    assert program.run("load_inline", **{**given, "cpp_sources": INLINE.replace("5", "6")})[0] == 6
    times = {path: path.stat().st_mtime_ns for path in program.cache.rglob("*.o")}
    assert len(times) == 2
    assert program.run("load_inline", **given)[0] == 5
    assert {path: path.stat().st_mtime_ns for path in program.cache.rglob("*.o")} == times


@LINUX
def test_two_processes_at_once(program: Program) -> None:
    both = [program.start(), program.start()]
    answers = [json.loads(process.communicate()[0]) for process in both]
    assert answers[0] == answers[1]
    assert answers[0][0] == 3


@LINUX
def test_one_that_is_killed_holds_nobody_up(program: Program) -> None:
    slow, waits, began = (program.folder / name for name in ("slow", "waits", "began"))
    slow.write_text(f'#!/bin/sh\n[ -e "{waits}" ] && touch "{began}" && sleep 60\nexec c++ "$@"\n', "utf-8")
    slow.chmod(0o755)
    program.variables["CXX"] = str(slow)
    assert program.run()[0] == 3
    program.value(4)
    waits.touch()
    with program.start() as process:
        while not began.exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    waits.unlink()
    assert program.run()[0] == 4


@LINUX
def test_an_error_is_what_a_build_prints(program: Program) -> None:
    program.source.write_text('#include "missing.h"\n', "utf-8")
    text, _ = program.run()
    assert "[extension-build-failed]" in text
    assert "missing.h" in text
    unsupported, _ = program.run(sources=str(program.source), is_standalone=True)
    assert "[jit-not-supported]" in unsupported


@LINUX
def test_a_build_directory_gets_the_module(program: Program) -> None:
    folder = program.folder / "own"
    assert program.run(sources=[str(program.source)], build_directory=str(folder))[0] == 3
    assert (folder / "tiny.so").is_file()


@pytest.mark.torch
@pytest.mark.parametrize("function", ["load", "load_inline"])
def test_objects_are_those_of_torchs_own(torch_python: str, plain_path: Path, function: str) -> None:
    source = plain_path / "tiny.cpp"
    source.write_text(INLINE, "utf-8")
    given = {"sources": [str(source)]}
    if function == "load_inline":
        given = {"cpp_sources": [INLINE], "no_implicit_headers": True}  # type: ignore[dict-item]
    made = {module: _load(torch_python, plain_path, module, function, given, {}) for module in MODULES}
    assert made[TORCH] == made["torchwheel"]
    assert list(made[TORCH]) == (["tiny"] if function == "load" else ["main"])


@pytest.mark.torch
@pytest.mark.parametrize("function", ["load", "load_inline"])
def test_device_code_is_that_of_torchs_own(cuda_torch_python: str, plain_path: Path, function: str) -> None:
    texts = {"cpp": INLINE.replace("#include <Python.h>", f"#include <Python.h>\n{DECLARED}"), "cu": KERNEL}
    sources = [plain_path / f"{name}.{name}" for name in texts]
    for source in sources:
        source.write_text(texts[source.stem], "utf-8")
    given: dict[str, Any] = {"sources": [str(source) for source in sources]}
    if function == "load_inline":
        given = {"cpp_sources": [texts["cpp"]], "cuda_sources": [KERNEL], "no_implicit_headers": True}
    given["extra_cuda_cflags"] = ["--no-compress"]
    home = plain_path / "cuda"
    home.symlink_to(cuda_home(cuda_torch_python))
    variables = {"TORCH_CUDA_ARCH_LIST": "9.0;12.0+PTX", "CUDA_HOME": str(home)}
    # PyPI's packages lack the name that torch.utils.cpp_extension links with.
    for library in home.glob("lib*/libcudart.so*"):
        plain_path.joinpath("libcudart.so").symlink_to(library)
    variables["LIBRARY_PATH"] = str(plain_path)
    made = {
        module: _load(cuda_torch_python, plain_path, module, function, given, variables) for module in MODULES
    }
    assert made[TORCH] == made["torchwheel"]
    device = next(found for found in made[TORCH].values() if found.images)
    assert sorted(device.images) == ["ptx120", "sm120", "sm90"]


def _load(
    python: str,
    folder: Path,
    module: str,
    function: str,
    given: dict[str, Any],
    variables: dict[str, str],
) -> dict[str, Object]:
    """The objects of an extension that a program loads with one of the modules, by the stem of their sources."""
    # torch.utils.cpp_extension quotes neither the path of the environment nor that of a source.
    environment = folder / "environment"
    if not environment.is_symlink():
        environment.symlink_to(Path(python).parents[1])
    own = folder / module
    own.mkdir()
    program = PROGRAM.replace("import json, sys, torchwheel", f"import json, sys, {module} as torchwheel")
    done = subprocess.run(
        [environment / "bin/python", "-c", program, function, json.dumps(given)],
        env={
            **os.environ,
            "TORCHWHEEL_CACHE_DIR": str(own),
            "TORCH_EXTENSIONS_DIR": str(own),
            "PATH": os.pathsep.join([str(environment / "bin"), os.environ["PATH"]]),
            "TORCH_NO_COMPILER_WRAPPER": "1",
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[0] == 5
    return {path.name.partition(".")[0]: read_object(path) for path in own.rglob("*.o")}
