"""Files named in compiler and linker flags: ninja does not watch them, so their content is compared here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from torchwheel.engine.configuring import invalidate_outputs
from torchwheel.host.compilers import command_words, holds_flags, is_script
from torchwheel.plan.build_plan import Plan
from torchwheel.reporting.terminal import join_items, say
from torchwheel.system.files import atomic_write, file_sha256, read_state
from torchwheel.system.paths import is_file

STATE = "flag-files.json"
"""In a build's folder: the files named in flags when the last build started, with their content digests."""

_PARTS = re.compile("[,=@]")
"""Separators before a file in a flag: ``@f.txt``, ``-Wl,--version-script=v.map``, ``--options-file=f``."""
_MAX_NESTED = 100


def rebuild_for_changed_flag_files(plan: Plan, environment: Mapping[str, str]) -> None:
    """Make ninja run every step again if a file named in a flag has changed since the last build.

    Raises:
        OSError: ninja's log cannot be removed, or the state cannot be written.
    """
    record = plan.folders.root / STATE
    before, now = read_state(record).get("files"), flag_files(plan, environment)
    if isinstance(before, dict) and before != now:
        names = sorted({*before, *now} - {name for name in before if before[name] == now.get(name)})
        say(f"compiling everything again, because a file that flags name has changed: {join_items(names)}")
        # Before the state is written, because a kill between the two must not hide the change.
        invalidate_outputs(plan.folders.build)
    if before != now:
        atomic_write(record, json.dumps({"files": now}))


def flag_files(plan: Plan, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the files named in a plan's flags, and in response files among them, with their SHA-256.

    Launcher scripts are included; other launchers do not change the compilers' output.
    """
    values = {name: value for name, value in environment.items() if holds_flags(name)}
    values |= {one.name: one.value for one in plan.variables if holds_flags(one.name)}
    values |= {f"-D{one.name}": one.value for one in plan.defines if holds_flags(one.name)}
    pending = [path for value in values.values() for path in _named_files(value, plan)]
    launchers = [define.value for define in plan.defines if define.name.endswith("_LAUNCHER")]
    pending += [
        (path, False) for value in launchers for path in _launcher_files(value, plan) if is_script(path)
    ]
    found: dict[str, str] = {}
    while pending and len(found) < _MAX_NESTED:
        path, is_response_file = pending.pop()
        if str(path) in found:
            continue
        with suppress(OSError):
            found[str(path)] = file_sha256(path).hex()
            if is_response_file:
                pending += _named_files(path.read_text(encoding="utf-8", errors="replace"), plan)
    return found


def _launcher_files(value: str, plan: Plan) -> Iterator[Path]:
    """Yield the existing files among the words of a launcher: a CMake list, whose words may contain blanks."""
    for word in value.split(";"):
        whole = plan.folders.build / word
        if is_file(whole):
            yield whole
        else:
            yield from (path for path, _ in _named_files(word, plan))


def _named_files(flags: str, plan: Plan) -> Iterator[tuple[Path, bool]]:
    """Yield the existing files named in flags, and whether each is a response file; paths are relative to the build."""
    for word in command_words(flags, plan.host.system):
        for part in {word, *_PARTS.split(word)}:
            with suppress(OSError, ValueError):
                path = plan.folders.build / part
                if part and is_file(path):
                    yield path, word.startswith("@") or "options-file" in flags
