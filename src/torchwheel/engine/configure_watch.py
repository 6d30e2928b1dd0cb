"""Watching a build's output for the end of CMake's configuring, to prove that CMake took what was asked.

Comparing then, not after the build, turns a wrong option from a lost night into a lost minute.
"""

from __future__ import annotations

import re
from pathlib import Path

from torchwheel.engine.cmake_cache import differences, read_cmake_cache
from torchwheel.errors import TorchwheelError
from torchwheel.plan.model import Plan

_CONFIGURED = re.compile(r"-- Build files have been written to: (?P<folder>.*?)\s*$")


class Configured(Exception):
    """Configuring ended well, and nothing more was wanted."""


class ConfigureWatch:
    """A watcher of output lines for :func:`torchwheel.engine.process.run_streaming`.

    Args:
        plan: the plan that is carried out.
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


def check_cmake_cache(plan: Plan) -> None:
    """Compare CMakeCache.txt with the plan.

    Raises:
        TorchwheelError: at least one option has another value; all of them are named.
    """
    cache = plan.folders.cmake_cache
    found = differences(plan.defines, read_cmake_cache(cache))
    skipped = plan.settings.skip_check
    problems = [p for p in (difference.problem(cache) for difference in found) if p.id not in skipped]
    if problems:
        raise TorchwheelError(problems)


def drop_stale_cache(plan: Plan) -> bool:
    """Remove a CMakeCache.txt that contradicts the plan, so that CMake configures again.

    setup.py does not run CMake again when a cache exists, and scikit-build-core lets an old value win where
    the tree reads an environment variable only if the option is not defined.

    Returns:
        Whether there was one.
    """
    cache = plan.folders.cmake_cache
    if not cache.is_file() or not differences(plan.defines, read_cmake_cache(cache)):
        return False
    cache.unlink()
    return True
