"""How much of a wheel is read, all in one place: what is larger is refused, so that a small file cannot cost much.

Honest wheels stay far below: the largest known is PyTorch's for CUDA, with 13,043 files, 1.3 MB of RECORD, 2,975 images
of device code in one library, and 6,500 symbols that one takes from others.
"""

from __future__ import annotations

from dataclasses import dataclass

TEXT_BYTES = 1 << 20
"""METADATA and WHEEL."""

FIELD_LINES = 20_000
"""Lines of fields in each of them; the description below is not counted."""

VERSION_FILE_BYTES = 1 << 16
"""``torch/version.py``, which is parsed as Python: each byte of source may take a hundred of memory."""

MANIFEST_BYTES = 4 << 20

RECORD_BYTES = 16 << 20

MEMBERS = 100_000
"""Members of a wheel, and lines of its RECORD."""

EXPANSION, EXPANDED_BYTES = 100, 64 << 20
"""All members together may unpack to as many bytes, or to so many times the bytes of the file if that is more."""

HEADERS = 100_000
"""Sections, fat binaries and their entries in all libraries of a wheel."""

SECTIONS = 1 << 16
"""Of an ELF file; object files with a section for each function have tens of thousands."""

PE_SECTIONS = 96
"""Windows loads no more."""

IMPORTS = 1 << 16
"""Symbols that a library takes from others."""

LIBRARIES = 1 << 12
"""Libraries that a DLL names."""

NEEDED_VERSIONS = 1 << 14
"""Versions of symbols that an ELF file needs."""

SYMBOL_BYTES = 1 << 14
"""A symbol's name in a PE file."""

NAMES_BYTES = 1 << 26
"""All names together that are read of an ELF file; they may share bytes."""


@dataclass
class Allowance:
    """How many more headers of device code may be read; one for all libraries of a wheel."""

    headers: int = HEADERS
