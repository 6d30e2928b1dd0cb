"""Files that compiler and linker flags name: ninja does not watch them, so what they held is compared here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from torchwheel._files import atomic_write, file_sha256, read_state
from torchwheel.engine.configuring import invalidate_outputs
from torchwheel.host.compilers import command_words, is_script
from torchwheel.plan.model import Plan
from torchwheel.terminal import listed, say

STATE = "flag-files.json"
"""In a build's folder: the files that flags named when the last build began, with their contents."""

_PARTS = re.compile("[,=@]")
"""What stands before a file in a flag: ``@f.txt``, ``-Wl,--version-script=v.map``, ``--options-file=f``."""
_MAX_NESTED = 100


def rebuild_for_changed_flag_files(plan: Plan, environment: Mapping[str, str]) -> None:
    """Have ninja run every step again where a file that a flag names has other content than at the last build.

    Raises:
        OSError: ninja's log cannot be removed, or the state cannot be written.
    """
    record = plan.folders.root / STATE
    before, now = read_state(record).get("files"), flag_files(plan, environment)
    if isinstance(before, dict) and before != now:
        names = sorted({*before, *now} - {name for name in before if before[name] == now.get(name)})
        say(f"compiling everything again, because a file that flags name has changed: {listed(names)}")
        # First: a kill between the two must not hide the change.
        invalidate_outputs(plan.folders.build)
    if before != now:
        atomic_write(record, json.dumps({"files": now}))


def flag_files(plan: Plan, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the files that a plan's flags name, and those that response files among them name, with their SHA-256.

    So do scripts that are launchers; other launchers change nothing in what compilers make.
    """
    values = {name: value for name, value in environment.items() if _holds_flags(name)}
    values |= {one.name: one.value for one in plan.variables if _holds_flags(one.name)}
    values |= {f"-D{one.name}": one.value for one in plan.defines if _holds_flags(one.name)}
    pending = [path for value in values.values() for path in _named(value, plan)]
    launchers = [define.value for define in plan.defines if define.name.endswith("_LAUNCHER")]
    pending += [(path, False) for value in launchers for path in _launchers(value, plan) if is_script(path)]
    found: dict[str, str] = {}
    while pending and len(found) < _MAX_NESTED:
        path, is_response_file = pending.pop()
        if str(path) in found:
            continue
        with suppress(OSError):
            found[str(path)] = file_sha256(path).hex()
            if is_response_file:
                pending += _named(path.read_text(encoding="utf-8", errors="replace"), plan)
    return found


def _holds_flags(name: str) -> bool:
    """Whether a variable or option holds flags: ``CXXFLAGS``, ``CMAKE_CXX_FLAGS_RELEASE``."""
    _, flags, configuration = name.rpartition("FLAGS")
    return flags != "" and (configuration == "" or configuration.startswith("_"))


def _launchers(value: str, plan: Plan) -> Iterator[Path]:
    """The existing files among the words of a launcher: a list of CMake's, in whose words a blank may stand."""
    for word in value.split(";"):
        whole = plan.folders.build / word
        if whole.is_file():
            yield whole
        else:
            yield from (path for path, _ in _named(word, plan))


def _named(flags: str, plan: Plan) -> Iterator[tuple[Path, bool]]:
    """The existing files that flags name, and whether each is a response file; compilers run in the build directory."""
    for word in command_words(flags, plan.host.system):
        for part in {word, *_PARTS.split(word)}:
            with suppress(OSError, ValueError):
                path = plan.folders.build / part
                if part and path.is_file():
                    yield path, word.startswith("@") or "options-file" in flags
