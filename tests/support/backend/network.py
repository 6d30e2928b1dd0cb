"""Several hosts on one machine: network namespaces of Linux with one bridge between them. Needs root and iproute2."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

_SECONDS_TO_START = 30


@dataclass(frozen=True)
class Host:
    """A host with an address of its own.

    Attributes:
        namespace: its name for ``ip netns``.
        address: where the other hosts reach it.
    """

    namespace: str
    address: str

    @property
    def enter(self) -> tuple[str, ...]:
        """What stands before a command that runs there."""
        return ("ip", "netns", "exec", self.namespace)

    @contextlib.contextmanager
    def serves(self, *command: str | Path, log: Path, **variables: str) -> Iterator[None]:
        """A program that runs there while the block does, and prints into a log."""
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*self.enter, *map(str, command)],
                stdout=stream,
                stderr=stream,
                cwd=log.parent,
                env=os.environ | variables,
            )
        try:
            yield
            assert process.poll() is None, log.read_text(encoding="utf-8")
        finally:
            process.terminate()
            process.wait(20)


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Hosts that reach each other and nothing else; the test is skipped where this user may not make them."""
    if shutil.which("ip") is None:
        pytest.skip("ip (iproute2) cannot be run here")
    name = f"torchwheel-{os.getpid()}"
    made = [Host(f"{name}-{number}", f"10.99.0.{number}") for number in range(1, count + 1)]
    try:
        answer = _ip("netns", "add", name)
        if answer.returncode:
            pytest.skip(f"no network namespace can be made here: {answer.stderr.strip()}")
        for command in (("link", "add", "bridge", "type", "bridge"), ("link", "set", "bridge", "up")):
            _do("-n", name, *command)
        for number, host in enumerate(made, 1):
            _do("netns", "add", host.namespace)
            cable = ("link", "add", "wire", "netns", host.namespace, "type", "veth")
            _do(*cable, "peer", "name", f"port{number}", "netns", name)
            _do("-n", name, "link", "set", f"port{number}", "master", "bridge", "up")
            _do("-n", host.namespace, "address", "add", f"{host.address}/24", "brd", "+", "dev", "wire")
            for device in ("lo", "wire"):
                _do("-n", host.namespace, "link", "set", device, "up")
        yield made
    finally:
        for namespace in (name, *(host.namespace for host in made)):
            _ip("netns", "delete", namespace)


def wait_until(logged: Mapping[Path, str]) -> None:
    """Wait until logs hold these words."""
    deadline = time.monotonic() + _SECONDS_TO_START
    for log, words in logged.items():
        while words not in log.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline, f"{log.name}: {log.read_text(encoding='utf-8')}"
            time.sleep(0.1)


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, encoding="utf-8", timeout=20)


def _do(*arguments: str) -> None:
    answer = _ip(*arguments)
    assert answer.returncode == 0, f"ip {' '.join(arguments)}: {answer.stderr}"
