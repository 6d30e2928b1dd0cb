"""CMakeCache.txt: what CMake took, compared with the plan as soon as configuring ends, and what it found, with before.

Comparing then, not after the build, turns a wrong option from a lost night into a lost minute. CMake remembers whatever
its probes found, and a probe that a full disk or an end for lack of memory stopped has found nothing: so a
CMakeCache.txt is used again only as a finished configuring has left it, and a feature that the finished one had may not
be missing from the next.

The format is CMake's own: ``NAME:TYPE=VALUE`` a line, comments with ``#`` or ``//``; a value that ends with a
space is wrapped in single quotes, a name with a colon in double quotes. A value that has single quotes of its
own around it is written as it is, and loses them when CMake reads it again (Source/cmCacheManager.cxx).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchwheel._files import atomic_write, file_sha256
from torchwheel.diagnosis.grammar import words
from torchwheel.engine.failure import full_disk, is_full
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.findings import Finding, announce, error, stop_on_errors
from torchwheel.plan.model import Define, Plan
from torchwheel.settings.value_types import same, truth

_ENTRY = re.compile(r'^(?:"(?P<quoted>[^"]+)"|(?P<name>[^:=#"]+)):(?P<type>[A-Z]+)=(?P<value>.*)$')
_CONFIGURED = re.compile(r"-- Build files have been written to: (?P<folder>.*\S)")
_SUMMARY = re.compile(
    r"(?:-- )?\s+(?P<name>[A-Z][A-Z0-9_]*)\s*[=:]\s*(?P<value>ON|OFF|1|0|TRUE|FALSE|YES|NO)\s*$"
)
_STATE = "configured.json"
# Since CMake 3.26, and before that; below CMakeFiles of the build directory. Both are appended to.
_PROBE_LOGS = ("CMakeConfigureLog.yaml", "CMakeError.log")
_DISTURBANCES = ("Cannot allocate memory", "Disk full?", "File size limit exceeded", "File too large",
                 "Input/output error", "Resource temporarily unavailable", "Terminated signal", "Too many open files",
                 "failed to map segment", "signal 15 [Terminated]", "virtual memory exhausted")  # fmt: skip
# Not what was found: parts of versions, programs that come and go with PATH, exit codes (0 is well), and properties.
_NO_FEATURE = re.compile(r".*(?:VERSION|(?:_EXECUTABLE|_PROGRAM|_COMMAND|EXITCODE|-[A-Z]+)$)")


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
        TorchwheelError: at least one option has another value; all of them are named. Or there is no
            CMakeCache.txt, which CMake leaves out where the disk is full, and says that it has written it.
    """
    cache = plan.folders.cmake_cache
    try:
        effective = read_cmake_cache(cache)
    except FileNotFoundError:
        raise TorchwheelError(_no_cache(plan)) from None
    found = tuple(error(one.problem(cache)) for one in differences(plan.defines, effective))
    stop_on_errors(found, plan.settings.skip_check)
    return found


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


class Configured(Exception):
    """Configuring ended well, and nothing more was wanted."""


class ConfigureWatch:
    """A watcher of output lines for :func:`torchwheel.engine.process.run_streaming`.

    Args:
        stop_after: raise :exc:`Configured` once CMake has taken everything as asked.
    """

    def __init__(self, plan: Plan, *, stop_after: bool = False) -> None:
        self._plan = plan
        self._stop_after = stop_after
        self._summary: dict[str, str] = {}
        self._known = {log: log.stat().st_size for log in _probe_logs(plan) if log.is_file()}

    def __call__(self, line: str) -> None:
        """Look at one line.

        Raises:
            TorchwheelError: CMake took another value than was asked, or could not find what it found before.
            Configured: see ``stop_after``.
        """
        if said := _SUMMARY.match(line):
            self._summary[said["name"]] = said["value"]
        match = _CONFIGURED.search(line)
        if match is None or not _same_folder(match["folder"], self._plan.folders.build):
            return
        self._finish()
        if self._stop_after:
            raise Configured

    def _finish(self) -> None:
        plan = self._plan
        taken = check_cmake_cache(plan)
        found = read_cmake_cache(plan.folders.cmake_cache) | self._summary
        problems = (*_disturbed(plan, self._known), *_lost(plan, _last_found(plan), found))
        lost = tuple(map(error, problems))
        stop_on_errors(lost, plan.settings.skip_check)
        announce((*taken, *lost), plan.settings.skip_check)
        found = {name: value for name, value in found.items() if _is_feature(name, value)}
        state = {"cache": file_sha256(plan.folders.cmake_cache).hex(), "found": found}
        atomic_write(plan.folders.root / _STATE, json.dumps(state, indent=0, sort_keys=True))


def _same_folder(printed: str, folder: Path) -> bool:
    """A tree may run further CMake projects of its own; theirs do not count."""
    return Path(printed).resolve() == folder.resolve()


def _probe_logs(plan: Plan) -> list[Path]:
    return [plan.folders.build / "CMakeFiles" / name for name in _PROBE_LOGS]


def _disturbed(plan: Plan, known: Mapping[Path, int]) -> Iterable[Problem]:
    """What this configuring's probes met that has nothing to do with what they look for."""
    if is_full(plan.folders.root):
        yield full_disk(plan.folders.root, plan.folders.log, "CMake has configured on a disk that is full")
        return
    alternatives = "|".join(
        [*(words()[name] for name in ("ENOSPC", "EROFS", "KILLED")), *map(re.escape, _DISTURBANCES)]
    )
    pattern = re.compile(rf".*(?:{alternatives}).*".encode())
    for log in _probe_logs(plan):
        if not log.is_file():
            continue
        with log.open("rb") as stream:
            before = known.get(log, 0)
            stream.seek(before if before <= log.stat().st_size else 0)
            line = next((line for line in stream if pattern.match(line)), None)
        if line is not None:
            yield Problem(
                id="configuring-disturbed",
                what="a probe of CMake's could not be made, so that CMake takes what it looked for to be missing: "
                + line.decode("utf-8", "replace").strip(),
                why="CMake remembers that, and would build with less than this machine has",
                remedy="make room on the disk (of the temporary folder as well) or in memory, and build again: CMake "
                "then looks again",
                origin=str(log),
            )


def _lost(plan: Plan, before: Mapping[str, str], now: Mapping[str, str]) -> Iterable[Problem]:
    """What the last finished configuring of this build had, and this one has not."""
    asked = {define.name for define in plan.defines}
    for name in sorted(before.keys() - asked):
        value = now.get(name)
        if value is None or truth(value) is not False:
            continue
        if same(before[name], "ON") or value.upper().endswith("NOTFOUND"):
            yield Problem(
                id="feature-lost",
                what=f"the last configuring of this build had {name}={before[name]}, and this one has '{value}'",
                why="the settings are the same, so what CMake looks for was there and now is not; the lines before "
                "'Configuring done' in the log say what",
                remedy="install again what is missing and build again; if it is meant to be missing, build once with "
                "-C skip-check=feature-lost",
                origin=str(plan.folders.cmake_cache),
            )


def _is_feature(name: str, value: str) -> bool:
    return value != "" and truth(value) is not False and not _NO_FEATURE.match(name)


def _state(plan: Plan) -> dict[str, object]:
    try:
        state = json.loads((plan.folders.root / _STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _last_found(plan: Plan) -> dict[str, str]:
    found = _state(plan).get("found")
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def drop_stale_cache(plan: Plan) -> bool:
    """Remove a CMakeCache.txt that the last finished configuring of this plan has not left, so that CMake looks again.

    setup.py does not run CMake again when a cache exists, and scikit-build-core lets an old value win where
    the tree reads an environment variable only if the option is not defined. A build directory in the user's
    own tree serves all targets in turn, and an option that only an earlier one had would stay.

    Returns:
        Whether there was one.
    """
    cache = plan.folders.cmake_cache
    if not cache.is_file():
        return False
    if _state(plan).get("cache") == file_sha256(cache).hex() and not differences(
        plan.defines, read_cmake_cache(cache)
    ):
        return False
    cache.unlink()
    # What CMake knows of the compilers is in folders that its version names, and would be read again.
    for folder in (plan.folders.build / "CMakeFiles").glob("[0-9]*"):
        shutil.rmtree(folder)
    return True
