"""CMakeCache.txt: what CMake took, compared with the plan as soon as configuring ends.

Comparing then, not after the build, turns a wrong option from a lost night into a lost minute.

The format is CMake's own: ``NAME:TYPE=VALUE`` a line, comments with ``#`` or ``//``; a value that ends with a
space is wrapped in single quotes, a name with a colon in double quotes. A value that has single quotes of its
own around it is written as it is, and loses them when CMake reads it again (Source/cmCacheManager.cxx).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchwheel.engine.failure import full_disk
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.findings import Finding, error, stop_on_errors
from torchwheel.plan.model import Define, Plan
from torchwheel.settings.value_types import same

_ENTRY = re.compile(r'^(?:"(?P<quoted>[^"]+)"|(?P<name>[^:=#"]+)):(?P<type>[A-Z]+)=(?P<value>.*)$')


@dataclass(frozen=True)
class Difference:
    """An option that CMake holds another value for than was requested.

    Attributes:
        effective: CMake's value, or None if CMakeCache.txt does not know the option.
    """

    define: Define
    effective: str | None

    def problem(self, cache: Path) -> Problem:
        name, wanted = self.define.name, self.define.value
        if self.effective is None:
            what = f"{name} was set to '{wanted}' ({self.define.origin}), but CMake does not have it at all"
        else:
            what = f"{name} was set to '{wanted}' ({self.define.origin}), but CMake has '{self.effective}'"
        return Problem(
            id="cmake-took-other-value",
            what=what,
            why="the tree's CMake files changed it, usually because something that it needs was not found; "
            "the lines before 'Configuring done' in the log say what",
            remedy=f"install what is missing, or ask for what CMake can do: -C define.{name}={self.effective or ''}",
            origin=str(cache),
        )


def read_cmake_cache(path: Path) -> dict[str, str]:
    """All entries of a CMakeCache.txt by name.

    Raises:
        OSError: the file cannot be read.
    """
    entries: dict[str, str] = {}
    # Not splitlines(), which would also split at characters that may be part of a value.
    for line in path.read_text(encoding="utf-8", errors="surrogateescape").split("\n"):
        match = _ENTRY.match(line)
        if match is None or line.startswith("//"):
            continue
        value = match["value"]
        if len(value) >= 2 and value[0] == value[-1] == "'":
            value = value[1:-1]
        entries[match["quoted"] or match["name"]] = value
    return entries


def same_value(wanted: str, effective: str) -> bool:
    """Whether two CMake values mean the same; single quotes around one are lost when CMake reads it again."""
    return same(wanted, effective) or f"'{effective}'" == wanted


def differences(defines: Iterable[Define], cache: Mapping[str, str]) -> tuple[Difference, ...]:
    """Every expected define whose effective value is another one, in the order of the defines."""
    return tuple(
        Difference(define, effective)
        for define in defines
        if define.expected
        for effective in [cache.get(define.name)]
        if effective is None or not same_value(define.value, effective)
    )


def check_cmake_cache(plan: Plan) -> tuple[Finding, ...]:
    """Compare CMakeCache.txt with the plan.

    Returns:
        The differences that ``skip-check`` lets pass.

    Raises:
        TorchwheelError: at least one option has another value; all of them are named. Or there is no CMakeCache.txt.
    """
    folders = plan.folders
    effective = cache_that_was_left(folders.build, folders.root, folders.log)
    found = tuple(error(one.problem(folders.cmake_cache)) for one in differences(plan.defines, effective))
    stop_on_errors(found, plan.settings.skip_check)
    return found


def cache_that_was_left(build: Path, root: Path, log: Path) -> dict[str, str]:
    """What a run of CMake that has ended left in CMakeCache.txt of its build folder; ``root`` is on the same disk.

    Raises:
        TorchwheelError: there is no CMakeCache.txt, which CMake leaves out where the disk is full, and says that it has
            written it.
    """
    try:
        return read_cmake_cache(build / "CMakeCache.txt")
    except FileNotFoundError:
        raise TorchwheelError(_no_cache(build, root, log)) from None


def _no_cache(build: Path, root: Path, log: Path) -> Problem:
    what = "CMake has configured, but there is no CMakeCache.txt"
    return full_disk(root, log, f"{what}, and the disk is full") or Problem(
        id="no-cmake-cache",
        what=what,
        remedy=f"look into {log} for what removes it, and build again",
        origin=str(build),
    )
