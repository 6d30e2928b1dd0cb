"""Runs of CMake: whether what the last one found may be used again, and whether this one found all that there is.

CMake remembers in CMakeCache.txt whatever its probes found, whatever it was once given, and the default that an option
had when it was first read. A probe that a full disk or an end for lack of memory stopped has found nothing. So
CMakeCache.txt is used again only as a finished configuring has left it, with the same CMake files and the same
requests, and a feature that the finished one had may not be missing from the next.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel._files import atomic_write, file_sha256, read_state, remove_tree
from torchwheel.diagnosis.grammar import words
from torchwheel.engine.compiled_build_type import overruled_build_type
from torchwheel.engine.failure import full_disk
from torchwheel.errors import Finding, Problem, TorchwheelError, announce, error, stop_on_errors
from torchwheel.host.ninja import configure_inputs
from torchwheel.masking import mask_value
from torchwheel.plan.cmake_cache import Difference, find_differences, read_cmake_cache
from torchwheel.plan.model import Plan
from torchwheel.settings.config_settings import CMAKE_ARGUMENTS, argument_words
from torchwheel.settings.value_types import is_same_value, truth
from torchwheel.tree.build_system import backend_settings, get_subtable, read_pyproject

_CONFIGURED = re.compile(r"-- Build files have been written to: (?P<folder>.*\S)")
_SUMMARY = re.compile(
    r"(?:-- )?\s+(?P<name>[A-Z][A-Z0-9_]*)\s*[=:]\s*(?P<value>ON|OFF|1|0|TRUE|FALSE|YES|NO)\s*$"
)
STATE = "configured.json"
"""Remembers what the last finished configuring has read and found, and the content of its CMakeCache.txt."""

# What decides what CMake is called with; ninja does not run it again for them.
_NOT_WATCHED = ("pyproject.toml", "CMakePresets.json", "CMakeUserPresets.json")
# Since CMake 3.26, and before that; below CMakeFiles of the build directory. Both are appended to.
_PROBE_LOGS = ("CMakeConfigureLog.yaml", "CMakeError.log")
_DISTURBANCES = ("Cannot allocate memory", "Disk full?", "File size limit exceeded", "File too large",
                 "Input/output error", "Resource temporarily unavailable", "Terminated signal", "Too many open files",
                 "failed to map segment", "signal 15 [Terminated]", "virtual memory exhausted")  # fmt: skip
# Not what was found: parts of versions, programs that come and go with PATH, exit codes (0 is well), and properties.
_NO_FEATURE = re.compile(r".*(?:VERSION|(?:_EXECUTABLE|_PROGRAM|_COMMAND|EXITCODE|-[A-Z]+)$)")


@dataclass(frozen=True)
class Configuring:
    """Where CMake runs, and what decides what it finds.

    Attributes:
        root: a folder on the same disk, which remembers what the last run found.
        build: CMake's build directory.
        source: the folder of the sources, with the ``CMakeLists.txt`` and ``pyproject.toml`` that are its author's.
        log: the file with what CMake says.
        asked: a text that changes with all that CMake is asked for; with the time where that cannot be known.
        named: the options that are asked for by name, which are no features to be lost.
        options: the sources' own options, which are lost also where CMake knows no value of them any more.
    """

    root: Path
    build: Path
    source: Path
    log: Path
    skip_check: tuple[str, ...]
    asked: str = ""
    named: Collection[str] = ()
    options: Collection[str] = ()

    @property
    def cache(self) -> Path:
        """CMakeCache.txt."""
        return self.build / "CMakeCache.txt"

    def read_cache(self) -> dict[str, str]:
        """What a run of CMake that has ended left in CMakeCache.txt.

        Raises:
            TorchwheelError: there is none; CMake leaves it out where the disk is full, and says that it has written it.
        """
        try:
            return read_cmake_cache(self.cache)
        except FileNotFoundError:
            what = "CMake has configured, but there is no CMakeCache.txt"
            raise TorchwheelError(
                full_disk(self.root, self.log, f"{what}, and the disk is full")
                or Problem.of("no-cmake-cache", origin=self.build, what=what, log=self.log)
            ) from None

    def drop_stale_cache(self) -> bool:
        """Remove a CMakeCache.txt that is not what a finished configuring of the same has left: CMake looks again.

        setup.py does not run CMake again when a cache exists, and scikit-build-core lets an old value win where
        the tree reads an environment variable only if the option is not defined. A build directory in the user's
        own tree serves all targets in turn, and an option that only an earlier one had would stay.

        Returns:
            Whether there was one.
        """
        if not self.cache.is_file():
            return False
        if self._is_elsewhere():
            self.forget()
            # Its commands and ninja's records name the files of the place that it was copied from.
            invalidate_outputs(self.build)
            return True
        state = read_state(self.root / STATE)
        finished = state.get("cache") == file_sha256(self.cache).hex() and state.get("asked") == self.asked
        if finished and not _changed(state):
            return False
        self.forget()
        return True

    def _is_elsewhere(self) -> bool:
        """Whether CMakeCache.txt belongs to another folder, because the build directory was copied or moved."""
        # Not CMAKE_HOME_DIRECTORY: an extension's tables become a CMakeLists.txt elsewhere than its sources.
        place = read_cmake_cache(self.cache).get("CMAKE_CACHEFILE_DIR")
        return place is not None and Path(place).resolve() != self.build.resolve()

    def forget(self) -> None:
        """Remove what CMake remembers."""
        self.cache.unlink()
        # What CMake knows of the compilers is in folders that its version names, and would be read again.
        for folder in (self.build / "CMakeFiles").glob("[0-9]*"):
            remove_tree(folder)

    def write_state(self, found: Mapping[str, str]) -> None:
        """Remember what a finished run has found.

        Raises:
            OSError: it cannot be written.
        """
        state = {
            "asked": self.asked,
            "cache": file_sha256(self.cache).hex(),
            "files": self._files(),
            "found": {name: value for name, value in found.items() if _is_feature(name, value)},
        }
        atomic_write(self.root / STATE, json.dumps(state, indent=0, sort_keys=True))

    def _files(self) -> dict[str, str | None]:
        """What CMake has read, but for what it makes itself, and what its content is."""
        build = self.build.resolve()
        paths = {(self.build / path).resolve() for path in configure_inputs(self.build)}
        read = (path for path in paths if build not in path.parents and not path.is_dir())
        others = (self.source.resolve() / name for name in _NOT_WATCHED)
        return {str(path): _content(path) for path in (*read, *others)}

    def last_found(self) -> dict[str, str]:
        """What the last finished run of the same found; nothing if the sources' own CMake files have changed since."""
        state = read_state(self.root / STATE)
        found = state.get("found")
        source = self.source.resolve()
        if not isinstance(found, dict) or any(source in Path(path).parents for path in _changed(state)):
            return {}
        return (
            {str(name): str(value) for name, value in found.items()}
            if state.get("asked") == self.asked
            else {}
        )


def invalidate_outputs(build: Path) -> None:
    """Have ninja run every step again: it takes what its log does not know for out of date.

    Source: ninja's graph.cc, RecomputeOutputDirty ("command line not found in log").

    Raises:
        OSError: a file cannot be removed.
    """
    for name in (".ninja_log", ".ninja_deps", "build.ninja"):
        (build / name).unlink(missing_ok=True)


def _changed(state: Mapping[str, Any]) -> list[str]:
    """The CMake files that are not as they were."""
    files = state.get("files")
    if not isinstance(files, dict):
        return ["CMakeLists.txt"]
    return [path for path, content in files.items() if _content(Path(path)) != content]


def _content(path: Path) -> str | None:
    try:
        return file_sha256(path).hex()
    except OSError:
        return None


def names_files(arguments: Iterable[object]) -> bool:
    """Whether CMake's arguments name files: it remembers what these, and what they include, say, and watches none."""
    return any(str(word).startswith(("-C", "--preset")) for word in arguments)


def cmake_arguments(plan: Plan) -> list[str]:
    """CMake's arguments in a plan's tree, from its settings and its own pyproject.toml."""
    own = get_subtable(backend_settings(read_pyproject(plan.folders.source)), "cmake")
    arguments = (plan.inner_config_settings.get(CMAKE_ARGUMENTS), own.get("args"))
    return [str(word) for value in arguments for word in argument_words(value or [])]


def of_tree(plan: Plan) -> Configuring:
    """The runs of CMake of a plan's tree; the folder belongs to what the plan asks for."""
    folders = plan.folders
    named = {define.name for define in plan.defines}
    return Configuring(
        folders.root,
        folders.build,
        folders.source,
        folders.log,
        plan.settings.skip_check,
        str(time.time_ns()) if names_files(cmake_arguments(plan)) else "",
        named=named,
        options=plan.tree.options,
    )


def drop_stale_cache(plan: Plan) -> bool:
    """:meth:`Configuring.drop_stale_cache` for a tree, and one that has other values than the plan."""
    configuring = of_tree(plan)
    if configuring.drop_stale_cache():
        return True
    if not configuring.cache.is_file() or not find_differences(
        plan.defines, read_cmake_cache(configuring.cache)
    ):
        return False
    configuring.forget()
    return True


def check_cmake_cache(plan: Plan) -> tuple[Finding, ...]:
    """Compare CMakeCache.txt, and the compilers' flags, with the plan: where configuring ends, not after hours.

    Returns:
        The differences that ``skip-check`` lets pass.

    Raises:
        TorchwheelError: at least one option has another value, or flags are of another build type; all of them are
            named. Or there is no CMakeCache.txt.
    """
    configuring = of_tree(plan)
    different = find_differences(plan.defines, configuring.read_cache())
    problems = (_took_other(one, configuring.cache) for one in different)
    found = tuple(map(error, (*problems, *overruled_build_type(plan))))
    stop_on_errors(found, plan.settings.skip_check)
    return found


def _took_other(difference: Difference, cache: Path) -> Problem:
    define, effective = difference.define, difference.effective
    return Problem.of(
        "cmake-took-other-value" if effective is not None else "cmake-took-other-value/missing",
        origin=cache,
        name=define.name,
        value=define.value,
        origin_of_value=define.origin,
        found=effective or "",
    )


class Configured(Exception):
    """Configuring ended well, and nothing more was wanted."""


class ConfigureWatch:
    """A watcher of output lines for :func:`torchwheel.engine.process.run_streaming`.

    Args:
        check: what else is to be right; called when CMake has configured. It returns what ``skip-check`` lets pass.
        stop_after: raise :exc:`Configured` once CMake has taken everything as asked.
    """

    def __init__(
        self,
        configuring: Configuring,
        check: Callable[[], tuple[Finding, ...]] = tuple,
        *,
        stop_after: bool = False,
    ) -> None:
        self._configuring = configuring
        self._check = check
        self._stop_after = stop_after
        self._summary: dict[str, str] = {}
        self._known = {log: log.stat().st_size for log in _probe_logs(configuring) if log.is_file()}

    def __call__(self, line: str) -> None:
        """Look at one line.

        Raises:
            TorchwheelError: CMake took another value than was asked, or could not find what it found before.
            Configured: see ``stop_after``.
        """
        if said := _SUMMARY.match(line):
            self._summary[said["name"]] = said["value"]
        match = _CONFIGURED.search(line)
        if match is None or not _same_folder(match["folder"], self._configuring.build):
            return
        self._finish()
        if self._stop_after:
            raise Configured

    def _finish(self) -> None:
        configuring, skipped = self._configuring, self._configuring.skip_check
        taken = self._check()
        found = configuring.read_cache() | self._summary
        problems = (*_disturbed(configuring, self._known), *_lost(configuring, found))
        lost = tuple(map(error, problems))
        stop_on_errors(lost, skipped)
        announce((*taken, *lost), skipped)
        configuring.write_state(found)


def watch_of_tree(plan: Plan, *, stop_after: bool = False) -> ConfigureWatch:
    """What watches CMake in a plan's tree, and compares what it takes with the plan."""
    return ConfigureWatch(of_tree(plan), lambda: check_cmake_cache(plan), stop_after=stop_after)


def _same_folder(printed: str, folder: Path) -> bool:
    """A tree may run further CMake projects of its own; theirs do not count."""
    return Path(printed).resolve() == folder.resolve()


def _probe_logs(configuring: Configuring) -> list[Path]:
    return [configuring.build / "CMakeFiles" / name for name in _PROBE_LOGS]


def _disturbed(configuring: Configuring, known: Mapping[Path, int]) -> Iterable[Problem]:
    """What this configuring's probes met that has nothing to do with what they look for."""
    what = "CMake has configured on a disk that is full"
    if full := full_disk(configuring.root, configuring.log, what):
        yield full
        return
    alternatives = "|".join(
        [*(words()[name] for name in ("ENOSPC", "EROFS", "KILLED")), *map(re.escape, _DISTURBANCES)]
    )
    pattern = re.compile(rf".*(?:{alternatives}).*".encode())
    for log in _probe_logs(configuring):
        if not log.is_file():
            continue
        with log.open("rb") as stream:
            before = known.get(log, 0)
            stream.seek(before if before <= log.stat().st_size else 0)
            line = next((line for line in stream if pattern.match(line)), None)
        if line is not None:
            yield Problem.of(
                "configuring-disturbed", origin=log, line=line.decode("utf-8", "replace").strip()
            )


def _lost(configuring: Configuring, now: Mapping[str, str]) -> Iterable[Problem]:
    """What the last finished configuring of this build had, and this one has not."""
    before = configuring.last_found()
    for name in sorted(before.keys() - set(configuring.named)):
        # An option that depends on another one has no value where that is off.
        value = now.get(name, "" if name in configuring.options else None)
        if value is None or truth(value) is not False:
            continue
        if is_same_value(before[name], "ON") or value.upper().endswith("NOTFOUND"):
            yield Problem.of(
                "feature-lost" if name in now else "feature-lost/missing",
                origin=configuring.cache,
                name=name,
                before=before[name],
                now=now.get(name),
            )


def _is_feature(name: str, value: str) -> bool:
    if mask_value(name, value) != value:
        return False
    return value != "" and truth(value) is not False and not _NO_FEATURE.match(name)
