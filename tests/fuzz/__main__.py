"""``python -m fuzz NAME SECONDS``: one target under atheris, which follows torchwheel's own code only."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

# Not among what the tests require: it has no wheel for every Python.
import atheris

# To follow all of Python takes 40 s before the first run.
with atheris.instrument_imports(include=["torchwheel"]):
    from fuzz.targets import run, seeds


def main(name: str, seconds: str) -> None:
    """Fuzz one target for some seconds."""
    with tempfile.TemporaryDirectory() as new, tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds(name)):
            Path(corpus, str(number)).write_bytes(seed)
        options = [f"-max_total_time={seconds}", "-max_len=8192", "-timeout=20", "-rss_limit_mb=2048"]
        atheris.Setup([sys.argv[0], *options, new, corpus], lambda data: run(name, data))
        atheris.Fuzz()


main(*sys.argv[1:])
