"""The compiler cache during a build: its settings, the build's own server, and its hits."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from threading import Thread

from torchwheel.engine.process import NotStarted, start_process
from torchwheel.host.compiler_cache import (
    CCACHE_KEYS,
    CCACHE_LOG,
    LAUNCHER,
    ccache_log,
    launcher_script,
    read_ccache_settings,
)
from torchwheel.host.programs import NoAnswer, ask_program
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.masking import mask_line
from torchwheel.reporting.terminal import count_noun, say
from torchwheel.reproducible import VARIABLE
from torchwheel.system.files import atomic_write, open_log

_SERVER_LOG = "sccache-server.log"
_LOCAL = frozenset({"SCCACHE_DIR", "SCCACHE_CACHE_SIZE", "SCCACHE_BASEDIRS", "SCCACHE_DIRECT"})
_ERROR = re.compile(r"^sccache: error: (?P<error>.+)", re.MULTILINE)
_SECONDS_TO_START = 30.0
_SECONDS_TO_ANSWER = 20.0

# Variables with flags that ccache 4.7.5 does not hash; they become its namespace, which exists since 4.5.
_UNHASHED = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CCC_OVERRIDE_OPTIONS")
_NAMESPACE = "CCACHE_NAMESPACE"
# Nor does it hash the new names in -ffile-prefix-map of reproducible builds: a release that changes them must change
# this text.
_NAMED = "sources are /pytorch and /source"


@dataclass(frozen=True)
class CacheUse:
    """The statistics of a compiler cache."""

    hits: int = 0
    misses: int = 0
    failures: int = 0
    elsewhere: int = 0
    refused: int = 0

    def __sub__(self, earlier: CacheUse) -> CacheUse:
        return CacheUse(*(now - before for now, before in zip(astuple(self), astuple(earlier), strict=True)))

    def print_as(self, cache: str) -> None:
        if compiled := self.hits + self.misses:
            share = 100 * self.hits // compiled
            say(f"{cache} answered {self.hits:,} of {compiled:,} compilations ({share} %)")
        else:
            say(f"{cache}: nothing was compiled")
        if self.elsewhere:
            say(f"{count_noun(self.elsewhere, 'compilation')} made by {cache} on other machines")
        if self.refused:
            say(f"{count_noun(self.refused, 'remote compile')} failed in {cache}; compiled here instead")
        if self.failures:
            missed = count_noun(self.failures, "time")
            say(f"{cache}'s storage failed {missed}; what it lacked was compiled here")


@dataclass(frozen=True)
class CompilerCache:
    """The compiler cache of a build folder; a user's variables, and ccache's configuration, outrank ``defaults``."""

    name: str | None
    defaults: Mapping[str, str]
    folder: Path

    def running(self, environment: Mapping[str, str]) -> AbstractContextManager[dict[str, str]]:
        """Yield the whole environment for compilers; prints the cache's statistics afterwards."""
        write_compiler_launcher(self.folder, self.name)
        if self.name == "ccache":
            return _use_ccache(environment, self.defaults, self.folder)
        whole = {**self.defaults, **environment}
        return _use_sccache(whole, self.folder) if self.name == "sccache" else nullcontext(whole)


def write_compiler_launcher(folder: Path, cache: str | None) -> None:
    script = folder / LAUNCHER
    atomic_write(script, launcher_script(cache))
    script.chmod(0o755)


@contextmanager
def _use_ccache(
    environment: Mapping[str, str], ours: Mapping[str, str], folder: Path
) -> Iterator[dict[str, str]]:
    settings: dict[str, tuple[str, str]] = {}
    with suppress(NoAnswer):
        settings = read_ccache_settings(environment)
    in_files = {key for key, (origin, _) in settings.items() if origin not in ("environment", "default")}
    unset = {name: value for name, value in ours.items() if CCACHE_KEYS.get(name) not in in_files}
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
        say(f"ccache is switched off, by {decided}: no hits, nothing stored")
    # A log that the user chose may have the results of other builds, too.
    elif "CCACHE_STATSLOG" not in environment:
        ccache_use(log).print_as("ccache")


def ccache_use(log: Path) -> CacheUse:
    """Read ccache's statistics log, which exists since 4.4."""
    counts = Counter(kind for _, kind in ccache_log(log))
    return CacheUse(counts["hits"], counts["misses"], counts["failures"])


@contextmanager
def _use_sccache(environment: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """Run a separate sccache server for each build, because the server has the statistics and the base folders."""
    # The user's own server may work for other builds, so only the difference is printed.
    if any(environment.get(name) for name in ("SCCACHE_SERVER_PORT", "SCCACHE_SERVER_UDS")):
        before = _sccache_use(environment)
        yield dict(environment)
        (_sccache_use(environment) - before).print_as("sccache")
        return
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            whole = stack.enter_context(_run_server(environment, folder))
        except _NoServer as failure:
            say(f"sccache's server does not start: {failure}")
            say("this build goes on with sccache's cache on this machine alone")
            try:
                whole = stack.enter_context(_run_server(_without_remote(environment, folder), folder))
            except _NoServer as second:
                log = folder / _SERVER_LOG
                raise refusal("compiler-cache-unusable", origin=log, reason=second) from second
        yield whole
        _sccache_use(whole).print_as("sccache")


def _without_remote(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    kept = (name for name in environment if not name.startswith("SCCACHE_") or name in _LOCAL)
    # An empty file, because the user's own configuration may name the storage that fails.
    configuration = folder / "sccache.toml"
    configuration.write_text("", encoding="utf-8")
    return {**{name: environment[name] for name in kept}, "SCCACHE_CONF": str(configuration)}


class _NoServer(Exception):
    """sccache's server did not start; with its own message."""


@contextmanager
def _run_server(environment: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """Run a server that ends with the block, or with this process; yields the environment that names it."""
    log = folder / _SERVER_LOG
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    whole = {**environment, "SCCACHE_SERVER_PORT": str(port)}
    # A daemon would leave the session that ends with this process. By default the server also ends after 600 s
    # without a request.
    foreground = {"SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1", "SCCACHE_IDLE_TIMEOUT": "0"}
    try:
        with (
            suppress(subprocess.TimeoutExpired),
            start_process(["sccache"], folder, {**whole, **foreground}) as process,
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
            while not _is_listening(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    reader.join(1)
                    said = _ERROR.search(log.read_text(encoding="utf-8", errors="replace"))
                    raise _NoServer(said["error"] if said else "it does not answer")
                time.sleep(0.02)
            yield whole
            # It may still be writing its results.
            with suppress(NoAnswer):
                ask_program(["sccache", "--stop-server"], whole, _SECONDS_TO_ANSWER)
            process.wait(_SECONDS_TO_ANSWER)
    except NotStarted as error:
        raise _NoServer(str(error)) from error


def _sccache_use(environment: Mapping[str, str]) -> CacheUse:
    with suppress(NoAnswer, ValueError, KeyError, TypeError, AttributeError):
        command = ["sccache", "--show-stats", "--stats-format=json"]
        stats = json.loads(ask_program(command, environment, _SECONDS_TO_ANSWER).stdout)["stats"]
        counts = {name: sum(stats[name]["counts"].values()) for name in ("cache_hits", "cache_misses")}
        failures = stats["cache_read_errors"] + stats["cache_write_errors"] + stats["cache_timeouts"]
        elsewhere, refused = sum(stats["dist_compiles"].values()), stats["dist_errors"]
        return CacheUse(counts["cache_hits"], counts["cache_misses"], failures, elsewhere, refused)
    return CacheUse()


def _is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
