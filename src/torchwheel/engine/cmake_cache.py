"""CMakeCache.txt: comparing what CMake took with what was asked for, as soon as its configuring ends.

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

from torchwheel.engine.failure import full_disk, is_full
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.plan.model import Define, Plan
from torchwheel.settings.values import same

_ENTRY = re.compile(r'^(?:"(?P<quoted>[^"]+)"|(?P<name>[^:=#"]+)):(?P<type>[A-Z]+)=(?P<value>.*)$')
_CONFIGURED = re.compile(r"-- Build files have been written to: (?P<folder>.*?)\s*$")
_FINGERPRINT = "torchwheel-fingerprint"


@dataclass(frozen=True)
class Difference:
    """An option that CMake holds another value for than was asked.

    Attributes:
        define: what was asked for.
        effective: CMake's value, or None if CMakeCache.txt does not know the option.
    """

    define: Define
    effective: str | None

    def problem(self, cache: Path) -> Problem:
        """The difference as a problem that stops the build."""
        name, wanted = self.define.name, self.define.value
        if self.effective is None:
            what = (
                f"{name} was asked to be '{wanted}' ({self.define.origin}), but CMake does not have it at all"
            )
        else:
            what = (
                f"{name} was asked to be '{wanted}' ({self.define.origin}), but CMake has '{self.effective}'"
            )
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


class Configured(Exception):
    """Configuring ended well, and nothing more was wanted."""


class ConfigureWatch:
    """A watcher of output lines for :func:`torchwheel.engine.process.run_streaming`.

    Args:
        plan: the plan that is built.
        stop_after: raise :exc:`Configured` once CMake has taken everything as asked.
    """

    def __init__(self, plan: Plan, *, stop_after: bool = False) -> None:
        self._plan = plan
        self._stop_after = stop_after

    def __call__(self, line: str) -> None:
        """Look at one line.

        Raises:
            TorchwheelError: CMake took another value than was asked.
            Configured: see ``stop_after``.
        """
        match = _CONFIGURED.search(line)
        if match is None or not _same_folder(match["folder"], self._plan.folders.build):
            return
        check_cmake_cache(self._plan)
        if self._stop_after:
            raise Configured


def _same_folder(printed: str, folder: Path) -> bool:
    """A tree may run further CMake projects of its own; theirs do not count."""
    return Path(printed).resolve() == folder.resolve()


def check_cmake_cache(plan: Plan) -> tuple[Problem, ...]:
    """Compare CMakeCache.txt with the plan.

    Returns:
        The differences that ``skip-check`` lets pass.

    Raises:
        TorchwheelError: at least one option has another value; all of them are named. Or there is no
            CMakeCache.txt, which CMake leaves out where the disk is full, and says that it has written it.
    """
    cache = plan.folders.cmake_cache
    try:
        effective = read_cmake_cache(cache)
    except FileNotFoundError:
        raise TorchwheelError(_no_cache(plan)) from None
    problems = [found.problem(cache) for found in differences(plan.defines, effective)]
    stopping = [problem for problem in problems if problem.id not in plan.settings.skip_check]
    if stopping:
        raise TorchwheelError(stopping)
    return tuple(problems)


def _no_cache(plan: Plan) -> Problem:
    what = "CMake has configured, but there is no CMakeCache.txt"
    if is_full(plan.folders.root):
        return full_disk(plan.folders.root, plan.folders.log, f"{what}, and the disk is full")
    return Problem(
        id="no-cmake-cache",
        what=what,
        remedy=f"look into {plan.folders.log} for what removes it, and build again",
        origin=str(plan.folders.build),
    )


def drop_stale_cache(plan: Plan) -> bool:
    """Remove a CMakeCache.txt of another configuration than the planned one, so that CMake configures again.

    setup.py does not run CMake again when a cache exists, and scikit-build-core lets an old value win where
    the tree reads an environment variable only if the option is not defined. A build directory in the user's
    own tree serves all targets in turn, and an option that only an earlier one had would stay.

    Returns:
        Whether there was one.
    """
    cache = plan.folders.cmake_cache
    stale = cache.is_file() and (
        _is_of_another_plan(plan) or bool(differences(plan.defines, read_cmake_cache(cache)))
    )
    if stale:
        cache.unlink()
    if _is_in_tree(plan):
        plan.folders.build.mkdir(exist_ok=True)
        (plan.folders.build / _FINGERPRINT).write_text(plan.fingerprint, encoding="utf-8")
    return stale


def _is_of_another_plan(plan: Plan) -> bool:
    if not _is_in_tree(plan):
        return False
    try:
        return (plan.folders.build / _FINGERPRINT).read_text(encoding="utf-8") != plan.fingerprint
    except OSError:
        return True


def _is_in_tree(plan: Plan) -> bool:
    return plan.folders.build.parent == plan.tree.root
