"""What torchwheel reads of libraries and writes into wheels, judged by lief, pefile, abi3audit and installer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import lief
import pefile
import pytest
from installer.sources import WheelFile

from answered import answered
from torchwheel.proof.stable_abi import limited_api_violations
from torchwheel.wheel.objfile import read_linkage
from torchwheel.wheel.rewrite import Relabelling, relabel_wheel
from wheel_samples import Entry, Samples, WheelRecipe

# A function of 3.12 that is declared here, because headers before 3.12 lack it.
MODULE = """\
#include <Python.h>
PyAPI_FUNC(PyObject*) PyErr_GetRaisedException(void);
static PyObject* call(PyObject* self, PyObject* other) { return PyErr_GetRaisedException(); }
static PyObject* text(PyObject* self, PyObject* other) {
  return PyErr_Occurred() ? NULL : PyUnicode_FromString(PyUnicode_AsUTF8AndSize(other, 0));
}
static PyMethodDef methods[] = {{"call", call, METH_O, ""}, {"text", text, METH_O, ""}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "judged", 0, -1, methods};
PyMODINIT_FUNC PyInit_judged(void) { return PyModule_Create(&definition); }
"""
# It counts what its own bindings leave behind when Python ends.
lief.disable_leak_warning()
needs_elf = pytest.mark.skipif(
    sys.platform != "linux", reason="ELF files and a compiler for them are on Linux"
)


def elf_files() -> Iterator[Path]:
    """The modules of this Python, or what of it is a shared library, and the C++ library."""
    yield from sorted(Path(sysconfig.get_config_var("DESTSHARED") or "/none").glob("*.so"))
    yield from sorted(Path("/usr/lib").glob("*/libstdc++.so.6"))


@needs_elf
def test_elf_files_are_read_as_lief_reads_them() -> None:
    files = list(elf_files())
    if not files:
        pytest.skip("this Python has no modules in files of their own")
    for file in files:
        judged, found = lief.ELF.parse(str(file)), read_linkage(file)
        assert judged is not None
        assert list(found.libraries) == judged.libraries
        assert sorted(found.imports) == sorted(
            symbol.name for symbol in judged.dynamic_symbols if symbol.shndx == 0 and symbol.name
        )
        assert sorted((needed.library, needed.version) for needed in found.versions) == sorted(
            (needed.name, version.name)
            for needed in judged.symbols_version_requirement
            for version in needed.get_auxiliary_symbols()
        )


def pe_files() -> list[Path]:
    """The launchers for Windows, for x86-64 and Arm, in setuptools and pip."""
    site = Path(sysconfig.get_path("purelib"))
    return sorted(
        file for folder in ("setuptools", "pip/_vendor/distlib") for file in (site / folder).glob("*64*.exe")
    )


@pytest.mark.parametrize("path", pe_files(), ids=lambda path: path.name)
def test_pe_files_are_read_as_pefile_reads_them(path: Path) -> None:
    judged, found = pefile.PE(str(path)), read_linkage(path)
    directories = [
        *getattr(judged, "DIRECTORY_ENTRY_IMPORT", ()),
        *getattr(judged, "DIRECTORY_ENTRY_DELAY_IMPORT", ()),
    ]
    assert list(found.libraries) == [entry.dll.decode() for entry in directories]
    assert list(found.imports) == [
        symbol.name.decode() if symbol.name else f"#{symbol.ordinal}"
        for entry in directories
        for symbol in entry.imports
    ]


@needs_elf
@pytest.mark.parametrize("python", ["3.10", "3.12"])
def test_the_limited_api_ends_where_abi3audit_says(python: str, tmp_path: Path) -> None:
    source, module = tmp_path / "judged.c", tmp_path / "judged.abi3.so"
    source.write_text(MODULE, encoding="utf-8")
    headers = sysconfig.get_path("include")
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{headers}", source, "-o", module], check=True)
    done = answered(
        [sys.executable, "-m", "abi3audit", "--assume-minimum-abi3", python, "--report", str(module)]
    )
    (judged,) = json.loads(done.stdout)["specs"].values()
    result = judged["object"]["result"]
    expected = {*result["non_abi3_symbols"], *result["future_abi3_objects"]}
    problems = limited_api_violations(read_linkage(module), python, str(module))
    assert {name for problem in problems for name in re.findall(r"\b_?Py\w*_\w+", problem.what)} == expected
    assert bool(expected) is (python == "3.10")


def test_a_rewritten_wheel_is_valid_for_installer(tmp_path: Path) -> None:
    library = Samples().library(Entry(kind=2, number=120))
    (tmp_path / "given").mkdir()
    wheel = WheelRecipe(files={"torch/lib/libtorch_cuda.so": library}).write(tmp_path / "given")
    made = relabel_wheel(wheel, tmp_path, Relabelling("2.14.1+cu130.sm120"), environment={})
    with WheelFile.open(made) as judged:
        assert (judged.distribution, judged.version) == ("torch", "2.14.1+cu130.sm120")
        judged.validate_record()
