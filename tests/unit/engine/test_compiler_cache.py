"""What a compiler cache is told for one build, and how often it answered, with programs that stand for the caches."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from answered import answered
from put import put
from torchwheel.engine.cache_session import CacheUse, CompilerCache, ccache_use, write_compiler_launcher
from torchwheel.host.compiler_cache import LAUNCHER
from torchwheel.reporting.errors import Problem, TorchwheelError

OURS = {"CCACHE_BASEDIR": "/cache", "CCACHE_NOHASHDIR": "1", "CCACHE_SLOPPINESS": "include_file_mtime"}
FAKE_SCCACHE = """\
import json, os, socket, sys

if "--show-stats" in sys.argv or "--stop-server" in sys.argv:
    with socket.create_connection(("127.0.0.1", int(os.environ["SCCACHE_SERVER_PORT"]))) as client:
        client.sendall(b"stop" if "--stop-server" in sys.argv else b"stats")
        client.shutdown(socket.SHUT_WR)
        print(client.makefile().read())
    raise SystemExit
assert os.environ["SCCACHE_START_SERVER"] == os.environ["SCCACHE_NO_DAEMON"] == "1"
if os.environ.get("SCCACHE_REDIS_ENDPOINT") or os.environ.get("SCCACHE_DIR") == "/no/such":
    print("sccache: error: cache storage failed to read: Unexpected\\n\\nBacktrace:\\n  17: <unknown>")
    raise SystemExit(2)
with socket.create_server(("127.0.0.1", int(os.environ["SCCACHE_SERVER_PORT"]))) as server:
    while True:
        with server.accept()[0] as client:
            asked = client.makefile().read()
            if asked == "stats":
                counts = {"cache_hits": {"counts": {"C/C++": 3, "CUDA": 1}}, "cache_misses": {"counts": {"PTX": 1}}}
                errors = {"cache_read_errors": 0, "cache_write_errors": 2, "cache_timeouts": 0}
                sent = {"dist_compiles": {"10.0.0.2:10501": 1, "10.0.0.3:10501": 2}, "dist_errors": 1}
                client.sendall(json.dumps({"stats": counts | errors | sent}).encode())
        if asked == "stop":
            break
"""
CONFIGURATION = """\
(default) base_dir =
(environment) cache_dir = /c
(/home/me/my ccache.conf) hash_dir = true
(/etc/ccache.conf) sloppiness = pch_defines
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A PATH whose ccache tells of two files of settings, and whose sccache is a server that counts what it likes."""
    folder = tmp_path / "bin"
    put(folder / "ccache", f"#!/bin/sh\ncat <<'END'\n{CONFIGURATION}END\n")
    # A line for the shell, which Python takes for a string: #! takes no path with a space.
    start = f"#!/bin/sh\n''''exec '{sys.executable}' \"$0\" \"$@\" #'''\n"
    (folder / "sccache").write_text(start + FAKE_SCCACHE, encoding="utf-8")
    for name in ("ccache", "sccache"):
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def running(
    cache: str | None, environment: dict[str, str], defaults: dict[str, str], folder: Path
) -> AbstractContextManager[dict[str, str]]:
    return CompilerCache(cache, defaults, folder).running(environment)


def test_what_the_users_own_file_of_settings_says_holds(environment: dict[str, str], tmp_path: Path) -> None:
    log = str(tmp_path / "ccache-stats.log")
    with running("ccache", environment, OURS, tmp_path) as whole:
        assert whole == {**environment, "CCACHE_BASEDIR": "/cache", "CCACHE_STATSLOG": log}
    with running("ccache", {**environment, "CCACHE_BASEDIR": "/mine"}, OURS, tmp_path) as whole:
        assert whole["CCACHE_BASEDIR"] == "/mine"
    with running(None, environment, {"CCACHE_DISABLE": "1"}, tmp_path) as whole:
        assert whole == {**environment, "CCACHE_DISABLE": "1"}


def test_flags_that_ccache_does_not_look_at_have_a_part_of_its_own(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """It answered with what was compiled without them."""
    flags = {**environment, "NVCC_APPEND_FLAGS": "--use_fast_math", "NVCC_PREPEND_FLAGS": ""}
    for own, namespace in ({}, ""), ({"CCACHE_NAMESPACE": "mine"}, "mine "):
        with running("ccache", {**flags, **own}, {}, tmp_path) as whole:
            assert whole["CCACHE_NAMESPACE"] == f"{namespace}NVCC_APPEND_FLAGS=--use_fast_math"
        with running("ccache", {**environment, **own}, {}, tmp_path) as whole:
            assert whole.get("CCACHE_NAMESPACE") == own.get("CCACHE_NAMESPACE")
        with running("ccache", {**environment, **own, "SOURCE_DATE_EPOCH": "1"}, {}, tmp_path) as whole:
            assert whole["CCACHE_NAMESPACE"] == f"{namespace}sources are /pytorch and /source"


@pytest.mark.parametrize(("setting", "by"), [("file", "disable in {file}"), ("variable", "CCACHE_DISABLE")])
def test_a_cache_that_is_switched_off_says_so(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, by: str
) -> None:
    """It said that nothing was compiled."""
    if not shutil.which("ccache"):
        pytest.skip("ccache is not installed")
    file = put(tmp_path / "ccache.conf", "disable = true\n" if setting == "file" else "")
    # ccache needs a home, which a user without a name has by no database.
    own = {"CCACHE_CONFIGPATH": str(file), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    own |= {"CCACHE_DISABLE": "1"} if setting == "variable" else {}
    with running("ccache", {**environment, **own}, OURS, tmp_path / "build"):
        pass
    assert capsys.readouterr().out == (
        f"torchwheel: ccache is switched off, by {by.format(file=file)}: no hits, nothing stored\n"
    )


HIT = "# a.cpp\ndirect_cache_hit\nlocal_storage_hit\nlocal_storage_read_hit\n"
PREPROCESSED = "# b.cpp\ndirect_cache_miss\nlocal_storage_hit\npreprocessed_cache_hit\n"
MISS = "# cache_miss\ncache_miss\ndirect_cache_miss\nlocal_storage_miss\npreprocessed_cache_miss\n"
NO_COMPILATION = "# a.o\ncalled_for_link\n"


@pytest.mark.parametrize(
    ("log", "use"),
    [
        ("", CacheUse()),
        (NO_COMPILATION, CacheUse()),
        (f"{HIT}{PREPROCESSED}{MISS}{NO_COMPILATION}", CacheUse(2, 1)),
        ("# a.cpp\nlocal_storage_write\nrecache\n", CacheUse(0, 1)),
        (f"{MISS}remote_storage_error\n{MISS}remote_storage_timeout\n", CacheUse(0, 2, 2)),
    ],
)
def test_the_log_of_statistics(environment: dict[str, str], tmp_path: Path, log: str, use: CacheUse) -> None:
    file = put(tmp_path / "build" / "ccache-stats.log", HIT)
    with running("ccache", environment, OURS, tmp_path / "build"):
        # An earlier build's was deleted.
        assert ccache_use(file) == CacheUse()
        file.write_text(log, encoding="utf-8")
        assert ccache_use(file) == use


def test_a_log_of_the_users_own_is_theirs(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running("ccache", {**environment, "CCACHE_STATSLOG": "/mine"}, OURS, tmp_path) as whole:
        assert whole["CCACHE_STATSLOG"] == "/mine"
    assert capsys.readouterr().out == ""


ANSWERED = [
    "torchwheel: sccache answered 4 of 5 compilations (80 %)",
    "torchwheel: 3 compilations made by sccache on other machines",
    "torchwheel: 1 remote compile failed in sccache; compiled here instead",
    "torchwheel: sccache's storage failed 2 times; what it lacked was compiled here",
]


def listens(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


def test_each_build_has_a_server_of_sccache_of_its_own(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = {"SCCACHE_BASEDIRS": "/cache"}
    with (
        running("sccache", environment, ours, tmp_path / "one") as one,
        running("sccache", {**environment, "SCCACHE_BASEDIRS": "/mine"}, ours, tmp_path / "other") as other,
    ):
        ports = [whole.pop("SCCACHE_SERVER_PORT") for whole in (one, other)]
        assert one == {**environment, "SCCACHE_BASEDIRS": "/cache"}
        assert other == {**environment, "SCCACHE_BASEDIRS": "/mine"}
        assert len(set(ports)) == 2
        assert all(map(listens, ports))
        one["SCCACHE_SERVER_PORT"], other["SCCACHE_SERVER_PORT"] = ports
    assert not any(map(listens, ports))
    assert capsys.readouterr().out.splitlines() == ANSWERED * 2


def test_the_server_ends_with_a_build_that_fails(environment: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="failed"), running("sccache", environment, {}, tmp_path) as whole:
        port = whole["SCCACHE_SERVER_PORT"]
        raise ValueError("failed")
    assert not listens(port)


def test_of_a_server_of_the_users_own_what_it_did_in_between_counts(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running("sccache", environment, {}, tmp_path) as users:
        with running("sccache", users, {}, tmp_path) as whole:
            assert whole == users
        assert capsys.readouterr().out.splitlines() == ["torchwheel: sccache: nothing was compiled"]


def test_storage_that_cannot_be_reached_costs_the_sharing_and_not_the_build(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remote = {"SCCACHE_REDIS_ENDPOINT": "redis://nowhere", "SCCACHE_DIR": "/local"}
    with running("sccache", {**environment, **remote}, {"SCCACHE_BASEDIRS": "/b"}, tmp_path) as whole:
        kept = {name: value for name, value in whole.items() if name.startswith("SCCACHE_")}
        assert kept.pop("SCCACHE_SERVER_PORT")
        assert kept == {
            "SCCACHE_DIR": "/local",
            "SCCACHE_BASEDIRS": "/b",
            "SCCACHE_CONF": str(tmp_path / "sccache.toml"),
        }
    assert capsys.readouterr().out.splitlines() == [
        "torchwheel: sccache's server does not start: cache storage failed to read: Unexpected",
        "torchwheel: this build goes on with sccache's cache on this machine alone",
        *ANSWERED,
    ]


def test_a_server_that_does_not_start_at_all_stops_the_build(
    environment: dict[str, str], tmp_path: Path
) -> None:
    variables = {**environment, "SCCACHE_DIR": "/no/such"}
    with pytest.raises(TorchwheelError) as caught, running("sccache", variables, {}, tmp_path):
        pass
    assert caught.value.render() == (
        Problem.of(
            "compiler-cache-unusable",
            origin=tmp_path / "sccache-server.log",
            reason="cache storage failed to read: Unexpected",
        ).render()
    )


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot start a script as a program")
@pytest.mark.parametrize(
    ("cache", "command", "ran"),
    [
        (None, ["c++", "-c", "a b.cpp"], ["c++", "-c", "a b.cpp"]),
        ("ccache", ["c++", "a b.cpp"], ["ccache", "c++", "a b.cpp"]),
        ("sccache", ["/usr/bin/c++"], ["sccache", "/usr/bin/c++"]),
        # The user's own is the only one.
        ("ccache", ["sccache", "c++"], ["sccache", "c++"]),
        ("ccache", ["distcc", "c++"], ["distcc", "c++"]),
    ],
)
def test_the_script_before_each_compiler(
    tmp_path: Path, cache: str | None, command: list[str], ran: list[str]
) -> None:
    folder, programs = tmp_path / "a folder", tmp_path / "bin"
    for name in ("ccache", "sccache", "distcc", "c++"):
        programs.mkdir(exist_ok=True)
        (programs / name).write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    write_compiler_launcher(folder, "sccache" if cache is None else None)
    write_compiler_launcher(folder, cache)
    words = [str(programs / "c++") if word == "/usr/bin/c++" else word for word in command]
    done = answered([folder / LAUNCHER, *words], env={"PATH": str(programs)})
    assert done.stdout.replace("/usr/bin/c++", str(programs / "c++")).splitlines() == [
        str(programs / "c++") if word == "/usr/bin/c++" else word for word in ran
    ]
