"""Print the entry of src/torchwheel/toolkit/toolkits.toml for a CUDA toolkit, read off its own headers and ptxas.

    python tools/toolkit_row.py /usr/local/cuda-13.5

Drivers and platforms stand in NVIDIA's release notes; they and what PyPI has are left to whoever adds the entry.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from torchwheel.host.programs import ask_program
from torchwheel.toolkit.cuda_toolkit import Toolkit, toolkit_at
from torchwheel.toolkit.host_compiler import header_conflict, header_limits

_CODE = re.compile(r"\bsm_(\d+)(\d)([af]?)\b")


def row(toolkit: Toolkit) -> Iterator[str]:
    """The lines of the entry."""
    # nvcc leaves out the forms with a suffix, and ptxas' help speaks of older architectures in examples.
    plain = ask_program([str(toolkit.nvcc), "--list-gpu-code"]).stdout.split()
    ptxas = Path(str(toolkit.nvcc)).with_name("ptxas")
    found = set(_CODE.findall(ask_program([str(ptxas), "--help"]).stdout))
    known = (code for code in found if f"sm_{code[0]}{code[1]}" in plain)
    ordered = sorted(known, key=lambda code: (int(code[0]), int(code[1]), code[2]))
    listed = ", ".join(f'"{".".join(code[:2])}{code[2]}"' for code in ordered)
    limits, conflict = header_limits(toolkit), header_conflict(toolkit)
    yield "[[release]]"
    yield f'version = "{toolkit.version}"'
    yield f"architectures = [{listed}]"
    if limits is not None:
        yield f"gcc = {limits.gcc_max}"
        yield f"clang = {limits.clang_max}"
        if limits.msvc_range is not None:
            yield f"msvc = {list(limits.msvc_range)}"
    if conflict is not None:
        yield f'glibc-conflict = "{conflict or "none"}"'
    yield f'source = "https://docs.nvidia.com/cuda/archive/{toolkit.version}.0/cuda-toolkit-release-notes/index.html"'


if __name__ == "__main__":
    print("\n".join(row(toolkit_at(Path(sys.argv[1]).resolve(), "the command line"))))
