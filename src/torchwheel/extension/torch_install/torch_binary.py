"""What libc10, the smallest library of an installed PyTorch, tells of its build.

Only ELF files tell: the compiler in ``.comment``, the C library in the needed versions, and in the symbols which of
its two ABIs libstdc++ was used with. Source for the latter:
https://gcc.gnu.org/onlinedocs/libstdc++/manual/using_dual_abi.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torchwheel.versions import numbers
from torchwheel.wheel import elf
from torchwheel.wheel.bounded_file import BoundedFile
from torchwheel.wheel.elf_linkage import elf_linkage
from torchwheel.wheel.sections import read_sections

# One line of some 40 bytes for each compiler that made a part of the library.
_COMMENT_LIMIT = 1 << 16

# libc10.so has 2 MB, in a debug build ten times that.
_SYMBOLS_LIMIT = 1 << 26

_GCC = re.compile(rb"GCC: \([^)]*\) (\d{1,4}(?:\.\d{1,4})*)")
_CLANG = re.compile(rb"clang version (\d{1,4}(?:\.\d{1,4})*)")

# c10::Error::Error(c10::SourceLocation, std::string): the exception that all of PyTorch throws, in every release.
_TAKES_STRING = re.compile(rb"_ZN3c105ErrorC[12]ENS_14SourceLocationE(Ss|NSt7__cxx11)")


@dataclass(frozen=True)
class C10Build:
    """What built a libc10; None for what it does not tell.

    Attributes:
        compiler: ``gcc 13.3.1`` or ``clang 18.1.3``.
        glibc: the GNU C library that it needs: ``2.17``.
        cxx11_abi: whether it was compiled with the new ABI of libstdc++.
    """

    compiler: str | None = None
    glibc: str | None = None
    cxx11_abi: bool | None = None


def read_c10_build(path: Path) -> C10Build:
    """What built a libc10; for a file that is not ELF, nothing.

    Raises:
        TorchwheelError: it is damaged.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        file = BoundedFile.of(stream, str(path))
        if file.read(0, min(file.length, len(elf.IDENTITY))) != elf.IDENTITY:
            return C10Build()
        return C10Build(
            compiler=_compiler(file),
            glibc=elf_linkage(file).newest_versions().get("GLIBC"),
            cxx11_abi=_cxx11_abi(file),
        )


def _compiler(file: BoundedFile) -> str | None:
    sections = {section.name: section for section in read_sections(file.stream, file.origin)}
    section = sections.get(".comment")
    if section is None:
        return None
    comment = file.read(section.offset, min(section.size, _COMMENT_LIMIT))
    # The C runtime's start files are GCC's, of whatever version, so Clang is named beside one.
    for name, pattern in (("clang", _CLANG), ("gcc", _GCC)):
        versions = [version.decode("ascii") for version in pattern.findall(comment)]
        if versions:
            return f"{name} {max(versions, key=numbers)}"
    return None


def _cxx11_abi(file: BoundedFile) -> bool | None:
    found = _TAKES_STRING.search(file.read(0, min(file.length, _SYMBOLS_LIMIT)))
    return None if found is None else found[1] != b"Ss"
