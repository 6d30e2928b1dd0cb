"""Builds of public projects that went well are called clean, whatever their warnings and tests are called.

Five are built where a package registry can be reached; all twenty where TEST_TORCHWHEEL_REAL_BUILDS says ``all``
(``make real-builds``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchwheel.diagnosis.failures import Outcome
from torchwheel.diagnosis.scanner import diagnose

pytestmark = [
    pytest.mark.network,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="the options are those of gcc"),
]

QUICK = ("markupsafe==3.0.4", "psutil==7.2.2", "wrapt==2.5.2", "bitarray==3.12.3", "xxhash==4.1.0")
OTHERS = (
    "cffi==2.1.1",
    "contourpy==1.3.3",
    "coverage==7.17.3",
    "frozenlist==1.8.0",
    "greenlet==3.5.6",
    "kiwisolver==1.5.1",
    "lz4==4.4.5",
    "msgpack==1.2.4",
    "multidict==7.2.1",
    "pyyaml==6.0.3",
    "regex==2026.11.15",
    "setproctitle==1.3.8",
    "simplejson==4.3.0",
    "ujson==6.1.0",
    "zstandard==0.25.0",
)
WARNINGS_ARE_ERRORS = ("contourpy", "multidict")
CHOSEN = (*QUICK, *OTHERS) if os.environ.get("TEST_TORCHWHEEL_REAL_BUILDS") == "all" else QUICK
TESTS = """
import warnings
def test_build_FAILED(): warnings.warn("fatal error: this is a test's own")
def test_error_is_raised(): print("error: subprocess-exited-with-error")
def test_Killed(): pass
"""


@pytest.mark.long
@pytest.mark.parametrize("requirement", CHOSEN)
def test_a_build_that_went_well(requirement: str, tmp_path: Path) -> None:
    name = requirement.partition("=")[0]
    (tmp_path / "test_FAILED.py").write_text(TESTS, encoding="utf-8")
    pip = ("pip", "wheel", "-v", "--no-deps", "--no-cache-dir", "--no-binary", name, "-w", ".", requirement)
    many_warnings = "" if name in WARNINGS_ARE_ERRORS else "-Wall -Wextra -Wconversion -Wshadow"
    log = b"".join(
        _output(command, tmp_path, {"CFLAGS": many_warnings, "CXXFLAGS": many_warnings})
        for command in (pip, ("pytest", "-v", "-p", "no:cacheprovider", "test_FAILED.py"))
    )
    assert b"test_build_FAILED PASSED" in log
    # The last line alone would settle everything before it.
    for told in (log, b"\n".join(line for line in log.splitlines() if b"Successfully built" not in line)):
        diagnosis = diagnose([told])
        assert diagnosis.outcome is Outcome.SUCCEEDED, diagnosis.cause


def _output(command: tuple[str, ...], folder: Path, variables: dict[str, str]) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-4000:]
    return done.stdout
