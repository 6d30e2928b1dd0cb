"""``torchwheel ... | head``: silence when the reader has seen enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchwheel.cli.main import EXIT_OUTPUT_CLOSED


@pytest.mark.parametrize(
    "words", [["targets", "cpu"], ["gpus", "--json"], ["gpus", "--help"], ["inspect", "no.whl"], []]
)
def test_a_closed_output_is_no_error(words: list[str], here: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "torchwheel.cli.main", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    if words[:1] == ["inspect"]:  # It writes nothing to standard output, and its error is shown.
        assert (done.returncode, b"no.whl" in done.stderr) == (1, True)
    else:
        assert (done.returncode, done.stderr) == (EXIT_OUTPUT_CLOSED, b"")
