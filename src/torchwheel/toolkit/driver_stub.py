"""A stub of the driver's library, to link without an installed driver.

PyTorch's CMake and some extensions link ``libcuda``, which is part of the driver. NVIDIA's installers include a stub
for linking, PyPI's packages do not. A linker reads only the name and the symbols of a shared library, so an ELF file
with these two and no code is enough (System V ABI, chapters 4 and 5).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

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

_HEADER_SIZE = _SECTION_SIZE = 64
_SYMBOL_SIZE = 24
_HEADER = "<16sHHIQQQIHHHHHH"
_IDENTITY = b"\x7fELF\x02\x01\x01"
"""64 bits, little-endian."""
_SHARED_OBJECT = 3
_GLOBAL_FUNCTION = 0x12
# A symbol in section 0 would be undefined.
_TEXT_INDEX, _STRINGS_INDEX = 1, 3
_DT_NULL, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 5, 6, 10, 11, 14
_PROGBITS, _STRTAB, _DYNAMIC, _DYNSYM = 1, 3, 6, 11
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4


def driver_functions(header: str) -> frozenset[str]:
    """The functions of the driver's library that programs call through a header such as ``cuda.h``."""
    names = set(_DECLARED.findall(header))
    for stream, name in _RENAMED.findall(header):
        names.add(name)
        if stream:
            names.add(f"{name}_{stream.lower()}")
    return frozenset(names)


def stub_library(functions: Iterable[str], machine: str) -> bytes:
    """Build the file: header, the sections' data, then the section table, which begins with an empty entry."""
    names = sorted(set(functions))
    strings, offsets = bytearray(1), {}
    # One table holds the names of symbols and of sections.
    for text in (SONAME, ".text", ".dynsym", ".dynstr", ".dynamic", *names):
        offsets[text] = len(strings)
        strings += text.encode() + b"\0"
    symbols = bytes(_SYMBOL_SIZE) + b"".join(
        struct.pack("<IBBHQQ", offsets[name], _GLOBAL_FUNCTION, 0, _TEXT_INDEX, 0, 0) for name in names
    )
    # Linkers find tables by section; a library that is never loaded has addresses 0.
    tags = {_DT_SONAME: offsets[SONAME], _DT_STRSZ: len(strings), _DT_SYMENT: _SYMBOL_SIZE}
    tags |= dict.fromkeys((_DT_STRTAB, _DT_SYMTAB, _DT_NULL), 0)
    dynamic = b"".join(struct.pack("<QQ", tag, value) for tag, value in tags.items())
    # Name, type, flags, data, and the table's links: section, first global symbol, size of an entry.
    sections = (
        (".text", _PROGBITS, _ALLOC | _EXECUTE, bytes(16), 0, 0, 0),
        (".dynsym", _DYNSYM, _ALLOC, symbols, _STRINGS_INDEX, 1, _SYMBOL_SIZE),
        (".dynstr", _STRTAB, _ALLOC, bytes(strings), 0, 0, 0),
        (".dynamic", _DYNAMIC, _ALLOC | _WRITE, dynamic, _STRINGS_INDEX, 0, 16),
    )
    body, table = b"", bytes(_SECTION_SIZE)
    for name, kind, flags, data, link, info, size in sections:
        place = _HEADER_SIZE + len(body)
        entry = (offsets[name], kind, flags, place, place, len(data), link, info, 8, size)
        table += struct.pack("<IIQQQQIIQQ", *entry)
        body += data + bytes(-len(data) % 8)
    sizes = (_HEADER_SIZE, 0, 0, _SECTION_SIZE, len(sections) + 1, _STRINGS_INDEX)
    kind_of_file = (_IDENTITY, _SHARED_OBJECT, MACHINES[machine], 1)
    header = struct.pack(_HEADER, *kind_of_file, 0, 0, _HEADER_SIZE + len(body), 0, *sizes)
    return header + body + table
