"""A stub of the driver's library, to link without an installed driver.

PyTorch's CMake and some extensions link ``libcuda``, which is part of the driver. NVIDIA's installers include a stub
for linking, PyPI's packages do not. A linker reads only the name and the symbols of a shared library, so an ELF file
with these two and no code is enough (System V ABI, chapters 4 and 5).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass

SONAME = "libcuda.so.1"
"""The driver's own library, which a program linked with the stub loads when it starts."""

MACHINES = {"x86_64": 62, "aarch64": 183}
"""ELF's machine numbers, ``e_machine``."""

_DECLARED = re.compile(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(")
# cuda.h renames functions: '#define cuMemAlloc cuMemAlloc_v2', '__CUDA_API_PTSZ(cuMemcpyAsync)'.
_RENAMED = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+cu[A-Z]\w*[ \t]+(?:__CUDA_API_(PTDS|PTSZ)\()?(cu[A-Z]\w*)\)?[ \t]*$",
    re.MULTILINE,
)

_HEADER_SIZE = 64
_SECTION_SIZE = 64
_SYMBOL_SIZE = 24
_SHARED_OBJECT = 3
_CURRENT = 1
_LITTLE_ENDIAN_64 = b"\x7fELF\x02\x01\x01" + bytes(9)
_GLOBAL_FUNCTION = 0x12
# A symbol in section 0 would be undefined.
_TEXT_INDEX = 1
_DT_NULL, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 5, 6, 10, 11, 14
_PROGBITS, _STRTAB, _DYNAMIC, _DYNSYM = 1, 3, 6, 11
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    flags: int
    data: bytes
    link: int = 0
    info: int = 0
    entry_size: int = 0


def driver_functions(header: str) -> frozenset[str]:
    """The functions of the driver's library that programs call through a header such as ``cuda.h``."""
    names = set(_DECLARED.findall(header))
    for stream, name in _RENAMED.findall(header):
        names.add(name)
        if stream:
            names.add(f"{name}_{stream.lower()}")
    return frozenset(names)


def stub_library(functions: Iterable[str], machine: str) -> bytes:
    names = sorted(set(functions))
    strings, offsets = _string_table([SONAME, *names])
    symbols = bytes(_SYMBOL_SIZE) + b"".join(
        struct.pack("<IBBHQQ", offsets[name], _GLOBAL_FUNCTION, 0, _TEXT_INDEX, 0, 0) for name in names
    )
    dynamic = _dynamic_table({_DT_SONAME: offsets[SONAME], _DT_STRSZ: len(strings), _DT_SYMENT: _SYMBOL_SIZE})
    return _elf_file(
        [
            _Section(".text", _PROGBITS, _ALLOC | _EXECUTE, b"\0" * 16),
            _Section(".dynsym", _DYNSYM, _ALLOC, symbols, link=3, info=1, entry_size=_SYMBOL_SIZE),
            _Section(".dynstr", _STRTAB, _ALLOC, strings),
            _Section(".dynamic", _DYNAMIC, _ALLOC | _WRITE, dynamic, link=3, entry_size=16),
        ],
        MACHINES[machine],
    )


def _dynamic_table(entries: dict[int, int]) -> bytes:
    """Build the dynamic table. Linkers find tables by section; a library that is never loaded has addresses 0."""
    every = {**entries, _DT_STRTAB: 0, _DT_SYMTAB: 0, _DT_NULL: 0}
    return b"".join(struct.pack("<QQ", tag, value) for tag, value in every.items())


def _string_table(texts: Iterable[str]) -> tuple[bytes, dict[str, int]]:
    data, offsets = bytearray(1), {}
    for text in texts:
        offsets[text] = len(data)
        data += text.encode() + b"\0"
    return bytes(data), offsets


def _elf_file(sections: list[_Section], machine: int) -> bytes:
    """Build the file: header, the sections' data, then the section table, which begins with an empty entry."""
    names, offsets = _string_table([*(section.name for section in sections), ".shstrtab"])
    every = [*sections, _Section(".shstrtab", _STRTAB, 0, names)]
    body, table = b"", bytes(_SECTION_SIZE)
    for section in every:
        place = _HEADER_SIZE + len(body)
        address = place if section.flags & _ALLOC else 0
        table += struct.pack(
            "<IIQQQQIIQQ",
            offsets[section.name],
            section.kind,
            section.flags,
            address,
            place,
            len(section.data),
            section.link,
            section.info,
            8,
            section.entry_size,
        )
        body += section.data + bytes(-len(section.data) % 8)
    header = _LITTLE_ENDIAN_64 + struct.pack(
        "<HHIQQQIHHHHHH",
        _SHARED_OBJECT,
        machine,
        _CURRENT,
        0,
        0,
        _HEADER_SIZE + len(body),
        0,
        _HEADER_SIZE,
        0,
        0,
        _SECTION_SIZE,
        len(every) + 1,
        len(every),
    )
    return header + body + table
