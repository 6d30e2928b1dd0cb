"""The combinations that the field tries, and the fixtures that they are made of.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from field import combinations
from torchwheel.system.toml import read_toml
from unit.field.test_combinations import FACTORS


def test_without_root_every_pair_is_there_but_those_that_no_combination_has() -> None:
    table = read_toml(Path(combinations.__file__).with_name("factors.toml"))["factors"]
    factors = {"python": FACTORS["python"], **table, "user": ["own"]}
    made = combinations.make_pairs(factors, seed=1)
    found = {frozenset(pair) for entry in made for pair in itertools.combinations(entry.items(), 2)}
    every = {
        frozenset(((one, first), (other, second)))
        for one, other in itertools.combinations(factors, 2)
        for first, second in itertools.product(factors[one], factors[other])
    }
    # There is no other user that could be shut out.
    allowed = {pair for pair in every if not _is_excluded({**dict(pair), "user": "own"})}
    assert allowed - found == set()
    assert not any(_is_excluded(entry) for entry in made)


def _is_excluded(combination: combinations.Combination) -> bool:
    return not combinations.is_possible(combination) or bool(combinations.expected_errors(combination))


def test_every_process_chooses_the_same() -> None:
    """Else xdist's workers would have other tests."""
    program = (
        "import json, sys; sys.path[:], factors = json.loads(sys.argv[1]);"
        "from field.combinations import make_pairs; print(make_pairs(factors, 1))"
    )
    command = [sys.executable, "-c", program, json.dumps([sys.path, FACTORS])]
    chosen = subprocess.check_output(command, env=os.environ | {"PYTHONHASHSEED": "3"}, text=True)
    assert chosen == f"{combinations.make_pairs(FACTORS, 1)}\n"
