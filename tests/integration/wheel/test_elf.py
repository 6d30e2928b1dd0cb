"""What ELF files take from others.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.bounded_file import BoundedFile
from torchwheel.wheel.objfile import find_linkage, read_linkage

SOURCE = """
#include <cmath>
#include <stdexcept>
#include <string>
namespace c10 { struct Device { void validate() const; }; }
extern "C" void PyErr_Clear();
extern "C" void maybe() __attribute__((weak));
extern "C" double entry(double x, const std::string& name) {
    c10::Device().validate();
    PyErr_Clear();
    if (maybe) maybe();
    if (x < 0) throw std::runtime_error(name);
    return std::pow(x, 0.3);
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux" or shutil.which("g++") is None:
        pytest.skip("g++ makes ELF files on Linux only")
    folder = tmp_path_factory.mktemp("elf ü")
    source, target = folder / "module.cpp", folder / "module.so"
    source.write_text(SOURCE, encoding="utf-8")
    command = ["g++", "-shared", "-fPIC", "-O1", "-Wl,--no-as-needed", str(source), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


def section_header(data: bytes, name: str) -> int:
    """Where in the file the header of a section is."""
    elf = ELFFile(io.BytesIO(data))
    index = elf.get_section_index(name)
    return int(elf.header["e_shoff"] + index * elf.header["e_shentsize"])


@pytest.mark.parametrize("tag", ["--enable-new-dtags", "--disable-new-dtags"])
def test_where_a_library_looks_for_others(module: Path, tmp_path: Path, tag: str) -> None:
    target = tmp_path / "lib.so"
    paths = "-Wl,-rpath,$ORIGIN/../lib:/opt/x,-rpath,$ORIGIN"
    command = ["g++", "-shared", f"-Wl,{tag}", paths, str(module), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    found = read_linkage(target)
    assert found.passes_on is (tag == "--disable-new-dtags")
    assert found.search_path == ("$ORIGIN/../lib", "/opt/x", "$ORIGIN")
    with target.open("rb") as stream:
        assert find_linkage(BoundedFile.of(stream, ""), symbols=False) == replace(found, imports=())
        dynamic = ELFFile(stream).get_section_by_name(".dynamic")
        assert dynamic is not None
        *tags, _end = dynamic.iter_tags()
    # Of both, RUNPATH alone counts; the linker leaves empty entries after the end.
    (path,) = (tag.entry.d_val for tag in tags if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"))
    data = bytearray(target.read_bytes())
    struct.pack_into("<QQ", data, dynamic["sh_offset"] + len(tags) * dynamic["sh_entsize"], 29, path)
    assert read_linkage(io.BytesIO(bytes(data)), "lib").passes_on is False


@given(st.data())
def test_mutations_raise_nothing_else(module: Path, data: st.DataObject) -> None:
    good = module.read_bytes()
    tables = [section_header(good, name) for name in (".dynsym", ".dynstr", ".gnu.version_r", ".dynamic")]
    mutated = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.sampled_from(tables)) + data.draw(st.integers(0, 63))
        mutated[position] = data.draw(st.integers(0, 255))
    try:
        read_linkage(io.BytesIO(bytes(mutated)), "lib")
    except TorchwheelError as error:
        assert [problem.id for problem in error.problems] == ["damaged-library"]
