"""The precedence of layers against a second, naive resolver.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from torchwheel.host.machine import described_host
from torchwheel.settings import Settings, load_settings
from unit.settings.test_resolve import PLACES, Values, values

HOST = described_host("linux_x86_64", python_version="3.11.7")


def load_from(given: Values) -> Settings:
    """Write each place's ``key = value`` pairs where they belong, and load."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tables = {
            place: "".join(f"{key} = {value!r}\n" for key, value in given[place].items()) for place in PLACES
        }
        (root / "t4.toml").write_text(f"kind = 'target'\n{tables['user target']}", encoding="utf-8")
        (root / "p.toml").write_text(f"kind = 'profile'\n{tables['user profile']}", encoding="utf-8")
        project = tables["project"].replace("target =", "default-target =")
        text = f"[tool.torchwheel]\n{project}[tool.torchwheel.target.t4]\n{tables['project target']}"
        (root / "pyproject.toml").write_text(text, encoding="utf-8")
        foreign = {"jobs": "MAX_JOBS", "define.USE_X": "USE_X", "arch": "TORCH_CUDA_ARCH_LIST"}
        own = {
            "jobs": "TORCHWHEEL_JOBS",
            "define.USE_X": "TORCHWHEEL_DEFINE",
            "arch": "TORCHWHEEL_ARCH",
            "target": "TORCHWHEEL_TARGET",
        }
        environment = {foreign[key]: str(value) for key, value in given["foreign"].items()}
        for key, value in given["own"].items():
            environment[own[key]] = f"USE_X={value}" if key == "define.USE_X" else str(value)
        config = {key: str(value) for key, value in given["config"].items()}
        return load_settings(root, config, environment, HOST, root)


@settings(max_examples=80, deadline=None)
@given(values("jobs", "define.USE_X", value=st.integers(1, 9)))
def test_the_highest_place_wins_and_remembers_the_others(drawn: Values) -> None:
    always = {"target": "t4", "profile": "p"}
    loaded = load_from({**drawn, "config": {**drawn["config"], **always}})
    for key in ("jobs", "define.USE_X"):
        expected = [int(str(drawn[place][key])) for place in reversed(PLACES) if key in drawn[place]]
        setting = loaded.entries.get(key)
        found = [] if setting is None else [setting, *setting.replaced]
        assert [int(str(item.value)) for item in found] == expected
        assert all(item.replaced == () for item in found[1:])
        layers = [item.layer for item in found]
        assert layers == sorted(layers, reverse=True)


ARCHES = st.sampled_from(["7.0", "8.0", "8.6", "9.0"])
# Where `arch` may stand, and the places among them that are above the target itself.
GENERAL = ("project", "foreign", "own", "config")


def naive_arch(arches: Mapping[str, str], targets: Mapping[str, str]) -> str | None:
    """An explicit arch counts from the place that names the target upwards; else the target's own."""
    named = [place for place in GENERAL if place in targets]
    explicit = [place for place in GENERAL if place in arches]
    lowest = GENERAL.index(named[-1]) if named else 0
    counting = [place for place in explicit if GENERAL.index(place) >= lowest]
    if counting:
        return arches[counting[-1]]
    if not named:
        return None
    return arches.get("project target") or arches.get("user target") or "7.5"


@settings(max_examples=120, deadline=None)
@given(
    arches=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("user target", "project target", *GENERAL), ARCHES)
    ),
    targets=st.fixed_dictionaries({}, optional=dict.fromkeys(("project", "own", "config"), st.just("t4"))),
)
def test_an_explicit_arch_counts_from_the_targets_layer_upwards(
    arches: Mapping[str, str], targets: Mapping[str, str]
) -> None:
    given = {
        place: {
            key: source[place] for key, source in (("arch", arches), ("target", targets)) if place in source
        }
        for place in PLACES
    }
    loaded = load_from(given)
    expected = naive_arch(arches, targets)
    assert (None if loaded.arch is None else str(loaded.arch)) == expected
    if loaded.arch is not None and targets:
        others = sum(place in arches for place in GENERAL)
        assert len(loaded.entries["arch"].replaced) == others
