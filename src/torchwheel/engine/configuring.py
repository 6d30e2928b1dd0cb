"""Runs of CMake: whether the last result can be reused, and whether this run found everything.

CMakeCache.txt keeps the results of CMake's probes, every value ever passed, and the first default of an option. A probe
that fails because of a full disk or a lack of memory looks like a missing feature. So CMakeCache.txt is reused only as
a finished run left it, with the same CMake files and the same request, and a feature of that run must not be missing
from the next.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from torchwheel.diagnosis.languages import read_words
from torchwheel.engine.process import full_disk
from torchwheel.host.ninja import configure_inputs
from torchwheel.host.programs import is_same_program
from torchwheel.plan.build_plan import Define, Plan
from torchwheel.reporting.errors import (
    Finding,
    Problem,
    TorchwheelError,
    announce,
    error,
    refusal,
    stop_on_errors,
)
from torchwheel.reporting.masking import mask_value
from torchwheel.settings.config_settings import CMAKE_ARGUMENTS, argument_words
from torchwheel.settings.value_types import is_same_value, parse_truth
from torchwheel.system.files import atomic_write, file_sha256, read_state, remove_tree
from torchwheel.system.paths import is_dir, is_file
from torchwheel.system.toml import get_subtable
from torchwheel.tree.source_tree import backend_settings, read_pyproject

_ENTRY = re.compile(r'^(?:"(?P<quoted>[^"]+)"|(?P<name>[^:=#"]+)):(?P<type>[A-Z]+)=(?P<value>.*)$')


@dataclass(frozen=True)
class Difference:
    """An option whose ``effective`` value in CMake, None without one, differs from the requested one."""

    define: Define
    effective: str | None


def read_cmake_cache(path: Path, *, internal: bool = True) -> dict[str, str]:
    """The entries of a CMakeCache.txt; internal ones are CMake's own, and dependent options without their condition."""
    entries: dict[str, str] = {}
    # Not splitlines(), which would also split at characters that may be part of a value.
    for line in path.read_text(encoding="utf-8", errors="surrogateescape").split("\n"):
        match = _ENTRY.match(line)
        if match is None or line.startswith("//") or (match["type"] == "INTERNAL" and not internal):
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
    return tuple(
        Difference(define, effective)
        for define in defines
        if define.expected
        for effective in [values.get(define.name)]
        if effective is None or not _has_effect(define, effective)
    )


_CONFIGURED = re.compile(r"-- Build files have been written to: (?P<folder>.*\S)")
STATE = "configured.json"
"""Records the inputs and results of the last finished run, and the content of its CMakeCache.txt."""

# These affect CMake's arguments; ninja does not run CMake again for them.
_NOT_WATCHED = ("pyproject.toml", "CMakePresets.json", "CMakeUserPresets.json")
_DISTURBANCES = ("Cannot allocate memory", "Disk full?", "File size limit exceeded", "File too large",
                 "Input/output error", "Resource temporarily unavailable", "Terminated signal", "Too many open files",
                 "failed to map segment", "signal 15 [Terminated]", "virtual memory exhausted")  # fmt: skip
# Not features: parts of versions, programs that depend on PATH, exit codes (0 is success), and properties.
_NO_FEATURE = re.compile(r".*(?:VERSION|(?:_EXECUTABLE|_PROGRAM|_COMMAND|EXITCODE|-[A-Z]+)$)")


class Configured(Exception):
    """Configuring succeeded, and nothing else was requested."""


@dataclass(frozen=True)
class Configuring:
    """A CMake project and the request for it.

    Attributes:
        root: a folder on the same disk, with the record of the last run.
        asked: a text that changes with the request; with the time if the request cannot be determined.
        values: the file into which CMake writes the final values of options, if it does.
    """

    root: Path
    build: Path
    source: Path
    log: Path
    skip_check: tuple[str, ...]
    asked: str = ""
    defines: tuple[Define, ...] = ()
    values: Path | None = None

    @property
    def cache(self) -> Path:
        return self.build / "CMakeCache.txt"

    def read_cache(self) -> dict[str, str]:
        try:
            return read_cmake_cache(self.cache)
        except FileNotFoundError:
            what = "CMake has configured, but there is no CMakeCache.txt"
            raise TorchwheelError(
                full_disk(self.root, self.log, f"{what}, and the disk is full")
                or Problem.of("no-cmake-cache", origin=self.build, what=what, log=self.log)
            ) from None

    def read_values(self) -> dict[str, str]:
        """Return the entries of CMakeCache.txt, with the final values of the tree's options over them."""
        cache = self.read_cache()
        if self.values is None:
            return cache
        try:
            return cache | read_cmake_values(self.values)
        except (OSError, ValueError):
            raise refusal("no-cmake-values", origin=self.values, log=self.log) from None

    def drop_stale_cache(self) -> bool:
        """Remove a CMakeCache.txt that is not from a finished run of the same request, so that CMake starts anew.

        setup.py does not run CMake again with an existing cache, and with scikit-build-core an old value wins if the
        tree reads an environment variable only for an undefined option. A build directory in the user's own tree is
        shared by all targets, so an option of an earlier target would persist.
        """
        if not is_file(self.cache):
            return False
        # Not CMAKE_HOME_DIRECTORY, because the CMakeLists.txt generated for an extension is not beside its sources.
        place = read_cmake_cache(self.cache).get("CMAKE_CACHEFILE_DIR")
        if place is not None and Path(place).resolve() != self.build.resolve():
            self.remove_cache()
            # A copied or moved folder's commands and ninja's records have the paths of the original. Outputs that are
            # not in ninja's log are made again: graph.cc, RecomputeOutputDirty ("command line not found in log").
            for name in (".ninja_log", ".ninja_deps", "build.ninja"):
                (self.build / name).unlink(missing_ok=True)
            return True
        state = read_state(self.root / STATE)
        finished = state.get("cache") == file_sha256(self.cache).hex() and state.get("asked") == self.asked
        with suppress(TorchwheelError):
            if finished and not _changed_files(state) and not self.find_unproved():
                return False
        self.remove_cache()
        return True

    def find_unproved(self) -> tuple[Difference, ...]:
        return find_differences(self.defines, self.read_values()) if self.defines else ()

    def check_values(self) -> tuple[Finding, ...]:
        """Check CMake's values right after configuring, not after hours; returns the skipped differences."""
        found = tuple(error(_took_other(one, self.values or self.cache)) for one in self.find_unproved())
        stop_on_errors(found, self.skip_check)
        return found

    def remove_cache(self) -> None:
        self.cache.unlink()
        if self.values is not None:
            self.values.unlink(missing_ok=True)
        # CMake would also reuse its compiler files, in folders named by its version.
        for folder in (self.build / "CMakeFiles").glob("[0-9]*"):
            remove_tree(folder)

    def write_state(self, found: Mapping[str, str]) -> None:
        state = {
            "asked": self.asked,
            "cache": file_sha256(self.cache).hex(),
            "files": self._read_files(),
            "found": {name: value for name, value in found.items() if _is_feature(name, value)},
        }
        atomic_write(self.root / STATE, json.dumps(state, indent=0, sort_keys=True))

    def _read_files(self) -> dict[str, str | None]:
        """The files that CMake read, except generated ones, with their content digests."""
        build = self.build.resolve()
        paths = {(self.build / path).resolve() for path in configure_inputs(self.build)}
        read = (path for path in paths if build not in path.parents and not is_dir(path))
        others = (self.source.resolve() / name for name in _NOT_WATCHED)
        return {str(path): _content_digest(path) for path in (*read, *others)}

    def last_found(self) -> dict[str, str]:
        """The results of the last finished run of the same request; empty if CMake files have changed since."""
        state, source = read_state(self.root / STATE), self.source.resolve()
        found, changed = state.get("found"), _changed_files(state)
        if state.get("asked") != self.asked or any(source in Path(path).parents for path in changed):
            return {}
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}

    def watch(self, *, stop_after: bool = False) -> Callable[[str], None]:
        """Return a watcher of a run's output lines, which raises :exc:`Configured` at the end if it is to stop the run.

        It raises TorchwheelError if CMake used another value than requested, or lost a feature that it found before.
        """
        known = {log: log.stat().st_size for log in self._probe_logs() if is_file(log)}

        def see(line: str) -> None:
            match = _CONFIGURED.search(line)
            # A tree may run other CMake projects.
            if match is None or Path(match["folder"]).resolve() != self.build.resolve():
                return
            taken, found = self.check_values(), self.read_values()
            lost = tuple(map(error, (*self._find_disturbances(known), *self._find_lost_features(found))))
            stop_on_errors(lost, self.skip_check)
            announce((*taken, *lost), self.skip_check)
            self.write_state(found)
            if stop_after:
                raise Configured

        return see

    def _probe_logs(self) -> list[Path]:
        # Since CMake 3.26, and before; in CMakeFiles of the build directory. CMake appends to both.
        return [self.build / "CMakeFiles" / name for name in ("CMakeConfigureLog.yaml", "CMakeError.log")]

    def _find_disturbances(self, known: Mapping[Path, int]) -> Iterable[Problem]:
        """Find failures of this run's probes that are unrelated to the features they test."""
        what = "CMake has configured on a disk that is full"
        if full := full_disk(self.root, self.log, what):
            yield full
            return
        words = [
            *(read_words()[name] for name in ("ENOSPC", "EROFS", "KILLED")),
            *map(re.escape, _DISTURBANCES),
        ]
        pattern = re.compile(rf".*(?:{'|'.join(words)}).*".encode())
        for log in filter(is_file, self._probe_logs()):
            with log.open("rb") as stream:
                before = known.get(log, 0)
                # Only the lines of this run; a shorter log was written anew.
                stream.seek(before if before <= log.stat().st_size else 0)
                line = next(filter(pattern.match, stream), None)
            if line is not None:
                text = line.decode("utf-8", "replace").strip()
                yield Problem.of("configuring-disturbed", origin=log, line=text)

    def _find_lost_features(self, found: Mapping[str, str]) -> Iterable[Problem]:
        before = self.last_found()
        for name in sorted(before.keys() - {define.name for define in self.defines}):
            now = found.get(name)
            if now is None or parse_truth(now) is not False:
                continue
            if is_same_value(before[name], "ON") or now.upper().endswith("NOTFOUND"):
                yield Problem.of("feature-lost", origin=self.cache, name=name, before=before[name], now=now)


def _changed_files(state: Mapping[str, Any]) -> list[str]:
    files = state.get("files")
    if not isinstance(files, dict):
        return ["CMakeLists.txt"]
    return [path for path, content in files.items() if _content_digest(Path(path)) != content]


def _content_digest(path: Path) -> str | None:
    with suppress(OSError):
        return file_sha256(path).hex()
    return None


def names_files(arguments: Iterable[object]) -> bool:
    """Whether CMake's arguments name files: CMake caches their values but does not watch them."""
    return any(str(word).startswith(("-C", "--preset")) for word in arguments)


def cmake_arguments(plan: Plan) -> list[str]:
    """CMake's arguments for a plan's tree, from its settings and its own pyproject.toml."""
    own = get_subtable(backend_settings(read_pyproject(plan.folders.source)), "cmake")
    arguments = (plan.inner_config_settings.get(CMAKE_ARGUMENTS), own.get("args"))
    return [str(word) for value in arguments for word in argument_words(value or [])]


def of_tree(plan: Plan) -> Configuring:
    """The CMake project of a plan's tree; its folder belongs to the plan's request."""
    folders = plan.folders
    return Configuring(
        folders.root,
        folders.build,
        folders.source,
        folders.log,
        plan.settings.skip_check,
        str(time.time_ns()) if names_files(cmake_arguments(plan)) else "",
        defines=tuple(plan.defines),
        values=folders.cmake_values,
    )


def _took_other(difference: Difference, file: Path) -> Problem:
    define, found = difference.define, difference.effective or ""
    asked = {"name": define.name, "value": define.value, "origin_of_value": define.origin}
    return Problem.of("cmake-took-other-value", origin=file, found=found, **asked)


def _is_feature(name: str, value: str) -> bool:
    # A secret must not be written into configured.json.
    is_open = mask_value(name, value) == value != ""
    return is_open and parse_truth(value) is not False and not _NO_FEATURE.match(name)
