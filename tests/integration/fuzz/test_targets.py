"""Every target over its corpus, over changed copies of it, and, where atheris is, for a moment under it."""

from __future__ import annotations

import os
import random
import sys
from importlib.util import find_spec

import pytest

from answered import answered
from fuzz.targets import TARGETS, run, seeds
from places import REPOSITORY

CHANGED_COPIES = 150
SECONDS = 3


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_changed_copies_of_it_are_read_or_refused(name: str) -> None:
    chance = random.Random(name)
    found = seeds(name)
    assert found
    for seed in found:
        run(name, seed)
        for _ in range(CHANGED_COPIES // len(found)):
            changed = bytearray(seed)
            for _ in range(chance.randint(1, 4)):
                position = chance.randrange(len(changed))
                changed[position : position + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
                changed = changed or bytearray(b"x")
            run(name, bytes(changed))


@pytest.mark.parametrize("name", TARGETS)
def test_a_moment_under_atheris(name: str) -> None:
    if find_spec("atheris") is None:
        pytest.skip("atheris is not installed: pip install --group fuzz")
    command = [sys.executable, "-m", "fuzz", name, str(SECONDS)]
    done = answered(
        command, cwd=REPOSITORY / "tests", env=os.environ | {"PYTHONPATH": "support"}, timeout=300
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
