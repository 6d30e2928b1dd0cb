"""Read CMake's values, from CMakeCache.txt and from torchwheel's own file, and compare them with the plan.

The format of CMakeCache.txt is CMake's own: ``NAME:TYPE=VALUE`` a line, comments with ``#`` or ``//``; a value that
ends with a space is wrapped in single quotes, a name with a colon in double quotes. A value already in single quotes
is written as it is, and loses them when CMake reads it again (Source/cmCacheManager.cxx).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from torchwheel.host.programs import is_same_program
from torchwheel.plan.build_plan import Define
from torchwheel.settings.value_types import is_same_value

_INTERNAL = "INTERNAL"
_ENTRY = re.compile(r'^(?:"(?P<quoted>[^"]+)"|(?P<name>[^:=#"]+)):(?P<type>[A-Z]+)=(?P<value>.*)$')


@dataclass(frozen=True)
class Difference:
    """An option whose value in CMake differs from the requested one.

    Attributes:
        effective: CMake's value, or None if CMake does not have the option.
    """

    define: Define
    effective: str | None


def read_cmake_cache(path: Path, *, internal: bool = True) -> dict[str, str]:
    """Return the entries of a CMakeCache.txt by name.

    Args:
        internal: also those of type INTERNAL: CMake's own, and dependent options whose condition is not fulfilled.
    """
    entries: dict[str, str] = {}
    # Not splitlines(), which would also split at characters that may be part of a value.
    for line in path.read_text(encoding="utf-8", errors="surrogateescape").split("\n"):
        match = _ENTRY.match(line)
        if match is None or line.startswith("//") or (match["type"] == _INTERNAL and not internal):
            continue
        value = match["value"]
        if len(value) >= 2 and value[0] == value[-1] == "'":
            value = value[1:-1]
        entries[match["quoted"] or match["name"]] = value
    return entries


def read_cmake_values(path: Path) -> dict[str, str]:
    """Read the final values of options, which CMake wrote through torchwheel's file; undefined ones are empty.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not complete.
    """
    # CMake escapes quotes and backslashes only.
    values = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"), strict=False)
    if not isinstance(values, dict):
        raise ValueError(path)
    return {str(name): str(value) for name, value in values.items()}


def same_value(wanted: str, effective: str) -> bool:
    """Whether two CMake values mean the same; CMake loses single quotes around a value when it reads it again."""
    return is_same_value(wanted, effective) or f"'{effective}'" == wanted


def _is_extended(name: str, wanted: str, effective: str) -> bool:
    """Whether flags or folders were only added to, as trees do with CMAKE_CXX_FLAGS and CUDNN_ROOT."""
    if name.startswith("CMAKE_"):
        words, all_words = (f" {' '.join(re.split('[; ]+', text))} " for text in (wanted, effective))
        return words in all_words
    return PurePath(wanted).is_absolute() and f";{wanted};" in f";{effective};"


def _has_effect(define: Define, effective: str) -> bool:
    wanted = define.value
    if same_value(wanted, effective) or _is_extended(define.name, wanted, effective):
        return True
    return PurePath(effective).is_absolute() and is_same_program(wanted, effective)


def find_differences(defines: Iterable[Define], values: Mapping[str, str]) -> tuple[Difference, ...]:
    """Find the expected defines with another effective value, in the order of the defines."""
    return tuple(
        Difference(define, effective)
        for define in defines
        if define.expected
        for effective in [values.get(define.name)]
        if effective is None or not _has_effect(define, effective)
    )
