"""Determine the build type from the compilers' flags, because flags and CMake files may override CMAKE_BUILD_TYPE.

Source: the initial flags of each build type, https://gitlab.kitware.com/cmake/cmake/-/blob/master/Modules/Compiler/GNU.cmake
and Modules/Platform/Windows-MSVC.cmake.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from torchwheel.plan.build_plan import Plan
from torchwheel.reporting.errors import Problem

_COMPILES = re.compile(rb": C(?:XX)?_COMPILER__")
_FLAGS = re.compile(rb"^  (?:DEFINES|FLAGS) = (.*)$", re.MULTILINE)
_LEVEL = re.compile(rb"(?<!\S)[-/]O(fast|[0-3dgsxz]?)(?!\S)")
_NOT_OPTIMISED = (b"0", b"d", b"g")
_DEBUG_INFORMATION = re.compile(rb"(?<!\S)(?:-g(?:gdb)?[1-3]?|[-/]Z[7iI])(?!\S)")
_NO_ASSERTIONS = re.compile(rb"(?<!\S)[-/]DNDEBUG(?![^\s=])")


def _is_optimised(flags: bytes) -> bool:
    levels = _LEVEL.findall(flags)
    # Of several levels, the last one applies: https://gcc.gnu.org/onlinedocs/gcc/Optimize-Options.html
    return bool(levels) and levels[-1] not in _NOT_OPTIMISED


def _is_optimised_with_information(flags: bytes) -> bool:
    return _is_optimised(flags) and _DEBUG_INFORMATION.search(flags) is not None


def _has_assertions(flags: bytes) -> bool:
    return _NO_ASSERTIONS.search(flags) is None


_SUITS: dict[str, Callable[[bytes], bool]] = {
    "Debug": _has_assertions,
    "MinSizeRel": _is_optimised,
    "Release": _is_optimised,
    # PyTorch's own: https://github.com/pytorch/pytorch/pull/129924
    "RelWithAssert": _has_assertions,
    "RelWithDebInfo": _is_optimised_with_information,
}


def overruled_build_type(plan: Plan) -> Iterator[Problem]:
    """Yield an error if most C and C++ files of a configured build are compiled for another build type.

    Some third-party libraries have separate flags.
    """
    build_type = plan.settings.build_type
    flag_counts = _flags_of_steps(plan.folders.build)
    total = sum(flag_counts.values())
    others = Counter({flags: count for flags, count in flag_counts.items() if not _SUITS[build_type](flags)})
    if 2 * sum(others.values()) <= total:
        return
    flags = others.most_common(1)[0][0].decode("utf-8", "replace")
    options = f"CMAKE_C_FLAGS_{build_type.upper()}", f"CMAKE_CXX_FLAGS_{build_type.upper()}"
    given = [f"{one.name} ({one.origin})" for one in plan.defines if one.name in options]
    source = " and ".join(given) or "CMAKE_BUILD_TYPE or its flags in the tree's CMake files"
    yield Problem.of(
        "build-type-overruled",
        origin=plan.folders.build / "build.ninja",
        build_type=build_type,
        count=sum(others.values()),
        total=total,
        flags=flags,
        source=source,
    )


def _flags_of_steps(build: Path) -> Counter[bytes]:
    """Count the C and C++ steps by their flags; none without ``build.ninja``."""
    try:
        text = (build / "build.ninja").read_bytes()
    except OSError:
        return Counter()
    steps = (step.partition(b"\n") for step in b"".join((b"\n", text)).split(b"\nbuild ")[1:])
    return Counter(
        b" ".join(_FLAGS.findall(values)).strip() for head, _, values in steps if _COMPILES.search(head)
    )
