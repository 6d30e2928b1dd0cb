"""The library that is linked in the driver's stead."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from torchwheel.toolkit.assemble import MACHINES, driver_functions, stub_library

HEADER = """
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuMemcpyHtoD                        __CUDA_API_PTDS(cuMemcpyHtoD_v2)
    #define cuStreamBeginCapture            __CUDA_API_PTSZ(cuStreamBeginCapture_v2)
#define CUDAAPI
#define CUDA_VERSION 13000
typedef int cuuint32_t;
CUresult CUDAAPI cuInit(unsigned int Flags);
__CUDA_DEPRECATED CUresult CUDAAPI cuCtxAttach(CUcontext *pctx, unsigned int flags);
CUresult CUDAAPI
cuDeviceTotalMem(size_t *bytes, CUdevice dev);
typedef void (CUDA_CB *CUhostFn)(void *userData);
"""


def test_the_functions_of_a_header() -> None:
    assert driver_functions(HEADER) == {
        "cuInit",
        "cuCtxAttach",
        "cuDeviceTotalMem",
        "cuDeviceTotalMem_v2",
        "cuMemcpyHtoD_v2",
        "cuMemcpyHtoD_v2_ptds",
        "cuStreamBeginCapture_v2",
        "cuStreamBeginCapture_v2_ptsz",
    }


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_an_elf_reader_sees_name_and_symbols(machine: str) -> None:
    elf = ELFFile(io.BytesIO(stub_library(["cuInit", "cuCtxAttach"], machine)))
    assert elf.header.e_type == "ET_DYN"
    assert elf.header.e_machine == {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[machine]
    symbols = [symbol for symbol in elf.get_section_by_name(".dynsym").iter_symbols() if symbol.name]
    assert [symbol.name for symbol in symbols] == ["cuCtxAttach", "cuInit"]
    assert {(s.entry.st_info.bind, s.entry.st_info.type, s.entry.st_shndx) for s in symbols} == {
        ("STB_GLOBAL", "STT_FUNC", 1)
    }
    tags = {tag.entry.d_tag: tag for tag in elf.get_section_by_name(".dynamic").iter_tags()}
    assert tags["DT_SONAME"].soname == "libcuda.so.1"


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler on Linux")
@pytest.mark.parametrize("linker", ["", "bfd", "gold", "lld", "mold"])
def test_linkers_take_it(linker: str, tmp_path: Path) -> None:
    import platform

    if linker and not shutil.which(f"ld.{linker}"):
        pytest.skip(f"there is no ld.{linker}")
    (tmp_path / "libcuda.so").write_bytes(stub_library(driver_functions(HEADER), platform.machine()))
    source = "int cuInit(unsigned);\nint cuMissing(void);\nint main(void) { return cuInit(0); }\n"
    (tmp_path / "main.c").write_text(source, encoding="utf-8")
    command = ["cc", *([f"-fuse-ld={linker}"] if linker else []), "main.c", "-o", "main", "-L.", "-lcuda"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    program = ELFFile(io.BytesIO((tmp_path / "main").read_bytes()))
    needed = [
        t.needed for t in program.get_section_by_name(".dynamic").iter_tags() if t.entry.d_tag == "DT_NEEDED"
    ]
    assert "libcuda.so.1" in needed
    (tmp_path / "main.c").write_text(source.replace("cuInit(0)", "cuMissing()"), encoding="utf-8")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60).returncode != 0
