"""Writes the BUILD_*, USE_* and CMAKE_* environment variables as a CMake file of forced cache entries."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PREFIXES = ("BUILD_", "USE_", "CMAKE_")
SUFFIXES = ("EXITCODE", "EXITCODE__TRYRUN_OUTPUT")


def bracket(text: str) -> str:
    """A CMake bracket argument, in which nothing is special but the closing bracket."""
    fence = "="
    while f"]{fence}]" in text + "]":
        fence += "="
    # CMake drops one newline after the opening bracket: this one.
    return f"[{fence}[\n{text}]{fence}]"


def main() -> None:
    lines = [
        f"set({bracket(name)} {bracket(value)} CACHE STRING [=[From the environment]=] FORCE)\n"
        for name, value in sorted(os.environ.items())
        if name.startswith(PREFIXES) or name.endswith(SUFFIXES)
    ]
    Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8", errors="surrogateescape")


if __name__ == "__main__":
    main()
