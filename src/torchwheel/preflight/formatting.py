"""Numbers and lists as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from torchwheel.host.model import Compiler

_MIB, _GIB = 1 << 20, 1 << 30
_TITLES = {"gcc": "GCC", "clang": "Clang", "msvc": "MSVC", "unknown": "the compiler"}


def gib(amount: int) -> str:
    """Bytes as ``31.8 GiB``."""
    return f"{amount / _GIB:.1f} GiB"


def mib(amount: int) -> str:
    """Bytes as ``27 MiB``."""
    return f"{amount / _MIB:.0f} MiB"


def listed(items: Sequence[str], most: int = 5) -> str:
    """Items with commas; of more than ``most`` only the first ones and how many more there are."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def printable(name: str) -> str:
    """A file's name with the bytes that are not UTF-8 written out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def span(versions: Sequence[str]) -> str:
    """``12.8``, or ``12.8 to 13.4``."""
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def compiler_text(compiler: Compiler) -> str:
    """``GCC 12.2.0 (/usr/bin/g++)``."""
    return " ".join(filter(None, (_TITLES[compiler.kind], compiler.version, f"({compiler.path})")))
