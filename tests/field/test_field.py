"""The main job in every place where it is used.

`make field` runs combinations that have every level of every factor at least once, in minutes; FIELD=full runs every
pair of levels and a hundred random combinations. FIELD_SEED gives other ones. One of them runs again by its number:
`FIELD_SEED=1 pytest tests/field -m field -k "[17-"`.
"""

from __future__ import annotations

import json
import os
import shutil
import string
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from answered import answered
from backend.builds import COMPUTES, snapshot
from field.combinations import (
    RELEASES,
    TOOLKITS,
    Combination,
    expected_errors,
    find_interpreter,
    find_toolkits,
    identify,
    is_same_python,
    make_factors,
)
from field.comparison import compare_names, compare_wheels
from field.front_ends import run_front_end
from field.session import FULL, HANDMADE, build_by_hand, choose_combinations, find_reference, share
from field.surroundings import CONSTRAINED, Shared, Surroundings, make_surroundings, plain_place

BY_HAND = {"epoch": "unset", "compiler": "cc"}
"""ELF files are compared by what others see of them: torchwheel's flags take folders out of objects."""
ADDED = ["sboms/torchwheel.cdx.json", "torchwheel.json"]

pytestmark = [
    pytest.mark.field,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="hides toolkits and changes users as Linux does"),
]


# Choosing takes seconds, which only `make field` need take.
CHOSEN = choose_combinations() if "FIELD" in os.environ else []


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    # A worker's folder is in that of its session.
    own = tmp_path_factory.getbasetemp()
    session = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with share(session / "references") as made:
        yield made


@pytest.mark.parametrize(
    ("number", "combination"),
    [
        pytest.param(number, combination, id=f"{number}-{identify(combination)}")
        for number, combination in enumerate(CHOSEN, 1)
    ],
)
def test_the_main_job(number: int, combination: Combination, shared: Shared) -> None:
    check_combination(combination, str(number), shared)


@pytest.mark.skipif(
    "unknown" not in make_factors()[0]["user"],
    reason="changes users: needs root, setpriv and a Python that all may run",
)
@pytest.mark.parametrize("sign", sorted({*string.punctuation} - {"/"}) if FULL else ["#"])
def test_a_sign_in_every_path(sign: str, shared: Shared) -> None:
    """Every printable sign works in every path; test_characters.py has trees that are built in place."""
    number = string.punctuation.index(sign)
    factors, _absent = make_factors()
    combination = {name: levels[0] for name, levels in factors.items()}
    combination |= dict.fromkeys(("checkout", "cache", "tmpdir", "home", "output"), f"sign {sign}")
    if "system" in factors["toolkit"]:
        combination |= {"toolkit": f"sign {sign}", "target": "rtx5070"}
    combination |= {
        # Its cache is elsewhere if the sign may not be in it, and no other test's.
        "user": "unknown",
        "python": next(
            version
            for version in factors["python"]
            if find_interpreter({"python": version, "user": "unknown"})
        ),
        "front-end": ("pip", "build", "uv", "torchwheel")[number % 4],
        "release": ("2.6", "2.15")[number // 4 % 2],
        "environment": "current",
    }
    check_combination(combination, f"sign-{number}", shared)


def check_combination(combination: Combination, name: str, shared: Shared) -> None:
    """Build as a combination says, and compare what comes out with what must."""
    here = make_surroundings(combination, shared.folder / name, shared)
    outcome = run_front_end(combination, here, shared)
    story = "\n".join(
        [json.dumps(combination, ensure_ascii=False), *outcome.commands, outcome.output[-8000:]]
    )
    expected = expected_errors(combination)
    if expected:
        # That no build is needed is a note after the errors.
        assert (outcome.code != 0, outcome.ids - {"need-not-build"}) == (True, expected), story
        assert not list(here.root.rglob("torch-*.whl")), story
    else:
        assert outcome.code == 0, story
        generation = RELEASES[combination["release"]]["generation"]
        reference = find_reference(shared, generation, combination["target"], combination["compiler"])
        found = [*_find_differences(combination, here, reference), *_find_breaches(combination, here)]
        assert not found, "\n".join([story, *found])
    assert here.before is None or snapshot(here.tree) == here.before, story
    assert not list(here.temporary.iterdir()), story
    shutil.rmtree(here.root, ignore_errors=True)
    if combination["user"] == "unknown":
        shutil.rmtree(plain_place("unknown", here.root), ignore_errors=True)


@pytest.mark.parametrize("target", HANDMADE)
@pytest.mark.parametrize("generation", ["setup.py", "scikit-build-core"])
def test_a_reference_is_what_the_tree_makes_of_the_same_variables(
    generation: str, target: str, shared: Shared, tmp_path: Path
) -> None:
    """Else a fault of torchwheel would be in each reference, too, and no comparison would see it."""
    if not FULL and (generation, target) not in [("setup.py", "a100,h100"), ("scikit-build-core", "rtx5070")]:
        pytest.skip("FIELD=full builds them all")
    if target != "cpu" and not find_toolkits():
        pytest.skip(f"no toolkit in {TOOLKITS}")
    reference = find_reference(shared, generation, target, "cc")
    found = compare_wheels(
        reference, build_by_hand(shared, tmp_path, generation, target), BY_HAND, same_python=True
    )
    assert found == [
        f"{reference.name.rsplit('-', 3)[0]}.dist-info/{name} is not in the reference" for name in ADDED
    ]


def _find_differences(combination: Combination, here: Surroundings, reference: Path) -> list[str]:
    """What of the wheel, or of the installed package, differs from the reference."""
    if "editable" not in combination["project"]:
        (wheel,) = here.output.glob("*.whl")
        names = compare_names(wheel, reference, combination["python"])
        return [*names, *compare_wheels(wheel, reference, combination, is_same_python(combination))]
    command = [*here.prefix, str(here.python), "-c", COMPUTES]
    answer = answered(command, cwd=here.root, env=dict(here.variables))
    if answer.returncode != 0:
        return [answer.stderr]
    version, product, _place = json.loads(answer.stdout)
    expected = (reference.name.split("-")[1], [[7.0, 10.0], [15.0, 22.0]])
    return [] if (version, product) == expected else [f"{version}, {product} is not {expected}"]


def _find_breaches(combination: Combination, here: Surroundings) -> list[str]:
    """What is in a kept environment although constraints forbid it."""
    if "constraints" not in combination["installer"]:
        return []
    name, bound = CONSTRAINED
    kept = here.cache.glob(f"environments/*/lib/python3*/site-packages/{name}-*.dist-info")
    versions = [path.name.removesuffix(".dist-info").split("-")[1] for path in kept]
    return [f"{name} {version} is not {bound}" for version in versions if version not in SpecifierSet(bound)]
