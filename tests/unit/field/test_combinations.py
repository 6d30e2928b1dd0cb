"""The combinations that the field tries, and the fixtures that they are made of."""

from __future__ import annotations

import itertools

import pytest
from packaging.requirements import Requirement

from field import combinations
from places import MINITORCH
from torchwheel.system.toml import read_toml

FACTORS = {
    "python": list(combinations.find_pythons()),
    "front-end": ["pip", "build", "uv"],
    "project": ["wrapped", "editable"],
    "checkout": ["plain", "link", "read-only"],
}
PROJECTS = {"scikit-build-core": MINITORCH, "setup.py": MINITORCH / "setup_py"}


def test_every_possible_pair_of_levels_is_there_and_no_impossible_one() -> None:
    made = combinations.make_pairs(FACTORS, seed=7)
    found = {pair for entry in made for pair in itertools.permutations(entry.items(), 2)}
    for one, other in itertools.permutations(FACTORS, 2):
        for pair in itertools.product(FACTORS[one], FACTORS[other]):
            rows = itertools.product(*({**FACTORS, one: [pair[0]], other: [pair[1]]}).values())
            possible = any(combinations.is_possible(dict(zip(FACTORS, row, strict=True))) for row in rows)
            assert (((one, pair[0]), (other, pair[1])) in found) is possible
    assert not any(entry["checkout"] == "read-only" and entry["project"] == "editable" for entry in made)


def test_a_seed_decides_which() -> None:
    assert combinations.make_pairs(FACTORS, seed=1) == combinations.make_pairs(FACTORS, seed=1)
    assert combinations.make_pairs(FACTORS, seed=1) != combinations.make_pairs(FACTORS, seed=2)
    assert combinations.make_random(FACTORS, seed=1, count=5) == combinations.make_random(FACTORS, 1, 5)


def test_the_short_set_has_every_level() -> None:
    made = combinations.make_pairs(FACTORS, seed=1)
    short = combinations.cover_levels(made, 6)
    assert len(short) == 6
    assert {item for entry in short for item in entry.items()} == {
        item for entry in made for item in entry.items()
    }


def test_a_combination_that_ends_with_an_error_covers_no_pair() -> None:
    factors = {**FACTORS, "toolkit": ["system", "none"], "target": ["cpu", "rtx5070"]}
    built = [*combinations.make_pairs(factors, seed=1), *combinations.make_random(factors, 1, 20)]
    assert not any(combinations.expected_errors(entry) for entry in built)
    errors = combinations.make_errors(factors, seed=1, count=2)
    assert [combinations.expected_errors(entry) for entry in errors] == [{"no-cuda-toolkit"}] * 2


@pytest.mark.parametrize(
    ("combination", "errors"),
    [
        ({"toolkit": "none", "target": "rtx5070"}, {"no-cuda-toolkit"}),
        ({"toolkit": "none", "target": "cpu"}, set()),
    ],
)
def test_the_errors_of_a_combination(combination: dict[str, str], errors: set[str]) -> None:
    assert combinations.expected_errors(combination) == errors


@pytest.mark.parametrize("generation", PROJECTS)
def test_minitorch_asks_for_no_release_that_upstream_does_not_ask_for(generation: str) -> None:
    """A bound of the fixture would hide what the newest and oldest packages do to a user's build."""
    own = read_toml(PROJECTS[generation] / "pyproject.toml")["build-system"]["requires"]
    lists = [
        release["requires"]
        for release in combinations.RELEASES.values()
        if release["generation"] == generation
    ]
    for requirement in map(Requirement, own):
        for entries in lists:
            same = [other for other in map(Requirement, entries) if other.name == requirement.name]
            assert not requirement.specifier or requirement.specifier in [other.specifier for other in same]
