"""The timing reports of GCC, Clang, nvcc and cl, as phases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from torchwheel.extension.profile.model import Phase
from torchwheel.extension.profile.phase_kinds import phase_kind

# " phase parsing   :   4.35 ( 62%)   3.63 ( 78%)   8.15 ( 69%)   520M ( 75%)": user, system and elapsed time.
_GCC = re.compile(
    r"^ phase (?P<name>.+?) *: +(?P<user>[\d.]+) \( *\d+%\) +(?P<system>[\d.]+) \( *\d+%\) ", re.MULTILINE
)
# "time(C:\...\bin\HostX64\x64\c1xx.dll)=1.25114s < 8140 - 8152 > BB [C:\...\a.cpp]"
_MSVC = re.compile(r"^time\((?:.*[\\/])?(?P<name>[^\\/()]+)\)=(?P<elapsed>[\d.]+)s", re.MULTILINE)

_NUMBER = re.compile(r"[\d.]+")

_MILLI, _MICRO = 1e-3, 1e-6


def gcc_phases(text: str) -> tuple[Phase, ...]:
    """What GCC writes to stderr with ``-ftime-report``: processor time.

    Its lines that begin with "phase" divide the whole time; the others divide it once more.
    """
    found = ((m["name"], float(m["user"]) + float(m["system"])) for m in _GCC.finditer(text))
    return _phases("gcc", found)


def msvc_phases(text: str) -> tuple[Phase, ...]:
    """What cl writes to stdout with ``/Bt+``: the elapsed time of each of its passes."""
    return _phases("msvc", ((m["name"], float(m["elapsed"])) for m in _MSVC.finditer(text)))


def _phases(compiler: str, times: Iterable[tuple[str, float]]) -> tuple[Phase, ...]:
    phases = ((phase_kind(compiler, name), name, seconds) for name, seconds in times)
    return tuple(Phase(kind, name, seconds) for kind, name, seconds in phases if kind is not None)


def clang_phases(text: str) -> tuple[Phase, ...]:
    """The file that Clang writes with ``-ftime-trace``, its totals of elapsed time; nothing for another file."""
    try:
        events = json.loads(text)["traceEvents"]
        times = [(str(event["name"]), float(event.get("dur", 0)) * _MICRO) for event in events]
    except (ValueError, KeyError, TypeError):
        return ()
    return _phases("clang", times)


def nvcc_phases(text: str) -> tuple[Phase, ...]:
    """The table that nvcc writes with ``--time``, a row for each phase.

    Its cells are not quoted, so those that may hold file names with commas are not counted on: a row's phase is the
    first cell that names one, and architecture and time are counted from its end.
    """
    phases = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        named = ((phase_kind("nvcc", cell), cell) for cell in cells)
        kind, name = next((pair for pair in named if pair[0] is not None), (None, ""))
        if kind is not None and cells[-1] == "ms" and _NUMBER.fullmatch(cells[-2]):
            phases.append(Phase(kind, name, float(cells[-2]) * _MILLI, cells[-4]))
    return tuple(phases)
