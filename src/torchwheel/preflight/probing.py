"""Queries of this machine; each raises ``NoAnswer`` if the machine does not respond."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sysconfig
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

from packaging.utils import canonicalize_name

from torchwheel.host.machine import Compiler, CompilerKind
from torchwheel.host.programs import (
    SECONDS_TO_ANSWER,
    VERSION,
    NoAnswer,
    ask_program,
    find_in_answer,
    find_program,
)
from torchwheel.preflight.facts import NOT_INSTALLED, Installed
from torchwheel.system.paths import find_below, is_dir, is_file
from torchwheel.versions import installed_versions

Question = Callable[[], Any]

_OTHER_COMPILER = re.compile(r"(?P<name>g\+\+|clang\+\+)-(?P<version>\d+)")
_DRIVER_FILE = Path("/proc/driver/nvidia/version")
_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_PUBLIC_HOST = "github.com"
_SECONDS_TO_RESOLVE = 3.0
"""Without a network a resolver may try for half a minute."""


def ask_together(
    questions: Mapping[str, Question], seconds: float = SECONDS_TO_ANSWER + 1
) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask all questions at once; return the answers, and why the others failed: timeout (``seconds``) or an exception.

    A question that does not end runs on in a daemon thread, which does not keep the process alive.
    """
    answers: dict[str, Any] = {}
    reasons: dict[str, str] = {}

    def ask(name: str, question: Question) -> None:
        try:
            answers[name] = question()
        except Exception as error:
            # A question that fails leaves the fact unknown.
            reasons[name] = str(error) or type(error).__name__

    threads = [Thread(target=ask, args=item, daemon=True) for item in questions.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    # A copy, because a late thread may still write into the original.
    found = dict(answers)
    late = f"it took longer than {seconds:g} seconds"
    return found, {name: reasons.get(name, late) for name in questions if name not in found}


def ask_tool(name: str, environment: Mapping[str, str]) -> Installed:
    path = find_program(name, environment.get("PATH", ""))
    return (
        NOT_INSTALLED
        if path is None
        else Installed(find_in_answer(VERSION, ask_program([path, "--version"]))[0], path)
    )


def ask_driver(environment: Mapping[str, str]) -> str:
    """Return the version of NVIDIA's driver from the kernel's file on Linux, else from nvidia-smi; empty for none."""
    try:
        match = VERSION.search(_DRIVER_FILE.read_text(encoding="utf-8").partition("\n")[0])
    except OSError:
        match = None
    if match:
        return match[0]
    program = find_program("nvidia-smi", environment.get("PATH", ""))
    if program is None:
        return ""
    match = VERSION.search(
        ask_program([program, "--query-gpu=driver_version", "--format=csv,noheader"]).stdout
    )
    return match[0] if match else ""


def is_online(environment: Mapping[str, str]) -> bool | None:
    """Whether a public host name can be resolved; None behind a proxy, which resolves names itself."""
    if any(environment.get(name) for name in _PROXIES):
        return None
    answers, unanswered = ask_together({"host": _can_resolve}, _SECONDS_TO_RESOLVE)
    if unanswered:
        raise NoAnswer(f"{_PUBLIC_HOST} was not resolved within {_SECONDS_TO_RESOLVE:g} seconds")
    return bool(answers["host"])


def _can_resolve() -> bool:
    try:
        return bool(socket.getaddrinfo(_PUBLIC_HOST, 443))
    except OSError:
        return False


def other_compilers(environment: Mapping[str, str]) -> tuple[Compiler, ...]:
    """Versioned C++ compilers on ``PATH``, such as g++-13, newest first."""
    found: dict[str, Compiler] = {}
    for folder in filter(None, environment.get("PATH", "").split(os.pathsep)):
        for path in find_below(Path(folder), "*"):
            match = _OTHER_COMPILER.fullmatch(path.name)
            # A shell would start the first one on PATH.
            if match and path.name not in found:
                kind: CompilerKind = "gcc" if match["name"] == "g++" else "clang"
                found[path.name] = Compiler("cxx", kind, str(path), match["version"], path.name)
    return tuple(sorted(found.values(), key=lambda c: (c.kind, -int(c.version))))


def python_headers() -> bool:
    return is_file(Path(sysconfig.get_path("include")) / "Python.h")


def installed_packages(names: Iterable[str]) -> dict[str, str]:
    installed = installed_versions()
    return {name: installed.get(canonicalize_name(name), "") for name in names}


def free_disk(folder: Path) -> int | None:
    """Return the free bytes in an existing or future folder; None if unknown."""
    existing = next((place for place in (folder, *folder.parents) if is_dir(place)), None)
    try:
        usage = shutil.disk_usage(existing) if existing else None
    except OSError:
        return None
    return usage.free if usage and usage.total else None


def find_obstacle(folder: Path) -> str:
    """Describe why a folder, which need not exist, cannot be written to; empty if it can."""
    existing = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), None)
    if existing is None:
        # A missing drive of Windows.
        return f"there is no {folder.anchor}"
    if not is_dir(existing):
        return f"{existing} is not a folder"
    # Both, because creating a file also requires the right to search its folder.
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"you have no write permission in {existing}"
    return ""
