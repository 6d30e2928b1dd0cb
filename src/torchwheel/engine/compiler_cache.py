"""The compiler cache while a build runs: its settings, a server of the build's own, and how often it answered."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from threading import Thread

from torchwheel._files import atomic_write, open_log
from torchwheel.engine.process import NotStarted, started
from torchwheel.errors import refusal
from torchwheel.host.compiler_cache import CCACHE_LOG, ccache_log
from torchwheel.host.programs import NoAnswer, ask_program
from torchwheel.masking import mask_line
from torchwheel.reproducible import VARIABLE
from torchwheel.terminal import counted, say

_STAND_IN = '#!/bin/sh\nexec "$@"\n'
_SERVER_LOG = "sccache-server.log"
_OWN_SERVER = ("SCCACHE_SERVER_PORT", "SCCACHE_SERVER_UDS")
_LOCAL = frozenset({"SCCACHE_DIR", "SCCACHE_CACHE_SIZE", "SCCACHE_BASEDIRS", "SCCACHE_DIRECT"})
_ERROR = re.compile(r"^sccache: error: (?P<error>.+)", re.MULTILINE)
_SECONDS_TO_START = 30.0
_SECONDS_TO_ANSWER = 20.0

# Flags by variables that ccache 4.7.5 does not look at, and the name of a part of its cache, from 4.5 on.
_UNHASHED = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CCC_OVERRIDE_OPTIONS")
_NAMESPACE = "CCACHE_NAMESPACE"
# Nor does it look at what -ffile-prefix-map calls the sources of reproducible builds: a release that calls them
# otherwise has to say so here.
_NAMED = "sources are /pytorch and /source"

_CCACHE_KEYS = {
    "CCACHE_BASEDIR": "base_dir",
    "CCACHE_COMPILERCHECK": "compiler_check",
    "CCACHE_NOHASHDIR": "hash_dir",
    "CCACHE_SLOPPINESS": "sloppiness",
}


@dataclass(frozen=True)
class CacheUse:
    """How often a compiler cache answered.

    Attributes:
        hits: compilations that it answered.
        misses: those that it did not, and keeps.
        failures: how often its storage, such as one that is shared with others, could not be reached or read.
        elsewhere: compilations that sccache-dist made on other machines.
        refused: those that it wanted to, and made here.
    """

    hits: int = 0
    misses: int = 0
    failures: int = 0
    elsewhere: int = 0
    refused: int = 0

    def __sub__(self, earlier: CacheUse) -> CacheUse:
        return CacheUse(*(now - before for now, before in zip(astuple(self), astuple(earlier), strict=True)))

    def describe(self, cache: str) -> Iterator[str]:
        """Lines for the user."""
        compiled = self.hits + self.misses
        if not compiled:
            yield f"{cache}: nothing was compiled"
        else:
            share = 100 * self.hits // compiled
            yield f"{cache} answered {self.hits:,} of {compiled:,} compilations ({share} %)"
        if self.elsewhere:
            yield f"{counted(self.elsewhere, 'compilation')} made by {cache} on other machines"
        if self.refused:
            yield f"other machines failed {cache} {counted(self.refused, 'time')}; that was compiled here"
        if self.failures:
            missed = counted(self.failures, "time")
            yield f"{cache}'s storage failed {missed}; what it lacked was compiled here"


def write_stand_in(script: Path) -> None:
    """Write a script that takes a compiler cache's place in commands: it runs the compiler directly.

    Raises:
        OSError: it cannot be written.
    """
    atomic_write(script, _STAND_IN)
    script.chmod(0o755)


@contextmanager
def compiler_cache(
    cache: str | None, environment: Mapping[str, str], ours: Mapping[str, str], folder: Path
) -> Iterator[dict[str, str]]:
    """Compile with a compiler cache, and say afterwards how often it answered this build.

    Args:
        cache: its name; None for none.
        environment: what the build runs in, without ``ours``.
        ours: variables that hold where the user says nothing else, in ccache's own file of settings either.
        folder: gets the cache's logs.

    Yields:
        The whole environment.

    Raises:
        TorchwheelError: sccache's server cannot be started.
    """
    if cache == "ccache":
        with _ccache(environment, ours, folder) as whole:
            yield whole
    elif cache == "sccache":
        with _sccache({**ours, **environment}, folder) as whole:
            yield whole
    else:
        yield {**ours, **environment}


@contextmanager
def _ccache(
    environment: Mapping[str, str], ours: Mapping[str, str], folder: Path
) -> Iterator[dict[str, str]]:
    settings = _settings(environment)
    in_files = {key for key, (origin, _) in settings.items() if origin != "environment"}
    unset = {name: value for name, value in ours.items() if _CCACHE_KEYS.get(name) not in in_files}
    log = folder / CCACHE_LOG
    folder.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    unhashed = [f"{name}={environment[name]}" for name in _UNHASHED if environment.get(name)]
    unhashed += [_NAMED] if environment.get(VARIABLE) else []
    spaces = [environment[_NAMESPACE]] if environment.get(_NAMESPACE) else []
    namespace = {_NAMESPACE: " ".join([*spaces, *unhashed])} if unhashed else {}
    yield {**unset, "CCACHE_STATSLOG": str(log), **environment, **namespace}
    origin, disabled = settings.get("disable", ("", ""))
    if disabled == "true":
        decided = "CCACHE_DISABLE" if origin == "environment" else f"disable in {origin}"
        say(f"ccache is switched off, by {decided}: it answered nothing and keeps nothing")
    elif "CCACHE_STATSLOG" not in environment:
        _tell("ccache", ccache_use(log))


def ccache_use(log: Path) -> CacheUse:
    """What ccache's log of statistics says so far; ccache keeps one from 4.4 on."""
    counts = Counter(kind for _, kind in ccache_log(log))
    return CacheUse(counts["hits"], counts["misses"], counts["failures"])


def _settings(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What is set of ccache's settings: where (a file, or ``environment``), and to which value."""
    answer = _ask(["ccache", "--show-config"], environment)
    rows = re.findall(r"^\((.*)\) (\w+) = (.*)$", answer, re.MULTILINE)
    return {key: (origin, value) for origin, key, value in rows if origin != "default"}


@contextmanager
def _sccache(environment: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """sccache's server counts, and knows the folders whose place means nothing: each build has one of its own."""
    if any(environment.get(name) for name in _OWN_SERVER):
        before = _sccache_use(environment)
        yield dict(environment)
        _tell("sccache", _sccache_use(environment) - before)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            whole = stack.enter_context(_server({**environment, "SCCACHE_SERVER_PORT": _free_port()}, folder))
        except _NoServer as failure:
            local = {
                name: value
                for name, value in environment.items()
                if not name.startswith("SCCACHE_") or name in _LOCAL
            }
            say(f"sccache's server does not start: {failure}")
            say("this build goes on with sccache's cache on this machine alone")
            (folder / "sccache.toml").write_text("", encoding="utf-8")
            local |= {"SCCACHE_CONF": str(folder / "sccache.toml"), "SCCACHE_SERVER_PORT": _free_port()}
            try:
                whole = stack.enter_context(_server(local, folder))
            except _NoServer as second:
                raise refusal(
                    "compiler-cache-unusable", origin=folder / _SERVER_LOG, reason=second
                ) from second
        yield whole
        _tell("sccache", _sccache_use(whole))


class _NoServer(Exception):
    """sccache's server did not start; with its own words."""


@contextmanager
def _server(environment: dict[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """A server that ends with the block, and with this process."""
    log = folder / _SERVER_LOG
    foreground = {"SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1", "SCCACHE_IDLE_TIMEOUT": "0"}
    try:
        with (
            suppress(subprocess.TimeoutExpired),
            started(["sccache"], folder, {**environment, **foreground}) as process,
        ):

            def keep() -> None:
                assert process.stdout is not None
                with open_log(log) as record:
                    record.truncate(0)
                    for line in process.stdout:
                        record.write(mask_line(line))
                        record.flush()

            reader = Thread(target=keep, daemon=True)
            reader.start()
            deadline = time.monotonic() + _SECONDS_TO_START
            while not _listens(environment["SCCACHE_SERVER_PORT"]):
                if process.poll() is not None or time.monotonic() > deadline:
                    reader.join(1)
                    said = _ERROR.search(log.read_text(encoding="utf-8", errors="replace"))
                    raise _NoServer(said["error"] if said else "it does not answer")
                time.sleep(0.02)
            yield environment
            # It still writes what it has answered with.
            _ask(["sccache", "--stop-server"], environment)
            process.wait(_SECONDS_TO_ANSWER)
    except NotStarted as error:
        raise _NoServer(str(error)) from error


def _sccache_use(environment: Mapping[str, str]) -> CacheUse:
    try:
        stats = json.loads(_ask(["sccache", "--show-stats", "--stats-format=json"], environment))["stats"]
        counts = {name: sum(stats[name]["counts"].values()) for name in ("cache_hits", "cache_misses")}
        failures = stats["cache_read_errors"] + stats["cache_write_errors"] + stats["cache_timeouts"]
        elsewhere, refused = sum(stats["dist_compiles"].values()), stats["dist_errors"]
        return CacheUse(counts["cache_hits"], counts["cache_misses"], failures, elsewhere, refused)
    except (ValueError, KeyError, TypeError, AttributeError):
        return CacheUse()


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _listens(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


def _ask(command: list[str], environment: Mapping[str, str]) -> str:
    try:
        return ask_program(command, environment, _SECONDS_TO_ANSWER).stdout
    except NoAnswer:
        return ""


def _tell(cache: str, use: CacheUse) -> None:
    for line in use.describe(cache):
        say(line)
