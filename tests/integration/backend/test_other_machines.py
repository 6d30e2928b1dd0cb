"""Compilers on other machines, for real: distcc on loopback, and sccache-dist on hosts that are namespaces."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.builds import clean_environment
from backend.network import Host, hosts, wait_until
from backend.test_compiler_caches import Machine, answered, free_port, needs, server
from put import put

DIST = re.compile(r"torchwheel: (\d+) compilations made by sccache on other machines")


@pytest.mark.long
@needs("ccache", "distcc", "distccd")
def test_two_servers_compile_what_ccache_does_not_know(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        ports = [free_port(), free_port()]
        logs = [tmp_path / f"distccd-{port}.log" for port in ports]
        for port, log in zip(ports, logs, strict=True):
            options = ("--no-detach", "--daemon", "--allow=127.0.0.1", "--listen=127.0.0.1", "--log-stderr")
            command = ("distccd", *options, f"--port={port}", "--user=nobody", "--jobs=2")
            # It gives up root, and TMPDIR may be root's alone.
            stack.enter_context(server(*command, port=port, log=log, TMPDIR="/tmp"))
        hosts = " ".join(f"127.0.0.1:{port}/2,lzo" for port in ports)
        variables = {"CCACHE_PREFIX": "distcc", "DISTCC_HOSTS": hosts, "DISTCC_FALLBACK": "0"}
        machine = Machine(tmp_path / "one-machine", "scikit-build-core")
        _, hits, compilations = answered(machine.build(variables, "compiler-cache=ccache", "jobs=4"))
    done = [log.read_text(encoding="utf-8").count("COMPILE_OK") for log in logs]
    assert hits == 0
    assert min(done) > 0
    assert sum(done) >= compilations - 1


def log_of(folder: Path, host: Host) -> Path:
    return folder / f"{host.namespace}.log"


SCHEDULER = """\
public_addr = "{scheduler}"
[client_auth]
type = "token"
token = "{token}"
[server_auth]
type = "token"
token = "{token}"
"""
HELPER = """\
cache_dir = "{folder}/toolchains"
public_addr = "{address}:10501"
scheduler_url = "http://{scheduler}"
[builder]
type = "overlay"
build_dir = "{folder}/build"
bwrap_path = "{bwrap}"
[scheduler_auth]
type = "token"
token = "{token}"
"""
CLIENT = """\
[dist]
scheduler_url = "http://{scheduler}"
[dist.auth]
type = "token"
token = "{token}"
"""


@needs("sccache", "sccache-dist", "bwrap")
def test_sccache_sends_what_it_does_not_know(tmp_path: Path) -> None:
    with hosts(3) as (here, *helpers), sccache_dist(tmp_path, here, helpers) as configuration:
        machine = Machine(tmp_path / "one-machine", "scikit-build-core", here.enter)
        printed = machine.build({"SCCACHE_CONF": str(configuration)}, "compiler-cache=sccache", "jobs=4")
        log = (tmp_path / "scheduler.log").read_text(encoding="utf-8")
    _, hits, compilations = answered(printed)
    assert (hits, DIST.findall(printed)) == (0, [str(compilations)])
    assert (
        min(log.count(f"will be assigned to server ServerId({host.address}:10501)") for host in helpers) > 0
    )


@contextlib.contextmanager
def sccache_dist(folder: Path, here: Host, helpers: list[Host]) -> Iterator[Path]:
    """A scheduler, and a server on each helper; the client's file of settings."""
    programs = clean_environment(folder)["PATH"]
    sccache, bwrap = shutil.which("sccache-dist", path=programs), shutil.which("bwrap", path=programs)
    assert sccache is not None
    layers = [folder / "probe" / name for name in ("lower", "upper", "work", "merged")]
    for layer in layers:
        layer.mkdir(parents=True)
    options = "lowerdir={},upperdir={},workdir={}".format(*layers)
    probe = ["unshare", "--mount", "mount", "-t", "overlay", "none", "-o", options, str(layers[-1])]
    answer = subprocess.run(probe, capture_output=True, encoding="utf-8", timeout=20)
    if answer.returncode:
        pytest.skip(f"sccache-dist's servers cannot mount an overlay here: {answer.stderr.strip()}")
    words = {"scheduler": f"{here.address}:10600", "token": "of this test", "bwrap": bwrap}
    foreground = {"SCCACHE_NO_DAEMON": "1", "SCCACHE_LOG": "info"}

    def serves(host: Host, kind: str, text: str, *, log: Path) -> contextlib.AbstractContextManager[None]:
        place = folder / host.namespace
        place.mkdir()
        settings = put(place / f"{kind}.toml", text.format(folder=place, address=host.address, **words))
        return host.serves(sccache, kind, "--config", settings, log=log, **foreground)

    with contextlib.ExitStack() as stack:
        log = folder / "scheduler.log"
        stack.enter_context(serves(here, "scheduler", SCHEDULER, log=log))
        wait_until({log: "listening"})
        for host in helpers:
            stack.enter_context(serves(host, "server", HELPER, log=log_of(folder, host)))
        wait_until({log_of(folder, host): "connected to scheduler" for host in helpers})
        client = put(folder / "client.toml", CLIENT.format(**words))
        yield client
