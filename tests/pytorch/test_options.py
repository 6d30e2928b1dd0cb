"""The shipped CMake options, the questions to them, and the checks on loading."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.pytorch.options import BuildOption, Presence, load_options, options


def option(name: str) -> BuildOption:
    found = options().find(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "presence"),
    [
        ("USE_NCCL", {"1.9": "unknown", "2.0": "yes", "2.6.0": "yes", "2.14.1": "yes", "2.16": "unknown"}),
        ("USE_NVSHMEM", {"2.7.1": "no", "2.8": "yes", "2.13": "yes", "2.15": "yes"}),
        ("USE_NNAPI", {"2.0": "yes", "2.13": "yes", "2.14": "no"}),
        ("USE_QNNPACK", {"2.0": "yes", "2.3": "yes", "2.4": "no"}),
        ("USE_CUSPARSELT", {"2.0": "no", "2.1": "yes", "2.13": "yes", "2.15": "yes"}),
        # The tree of 2.6 lacks it; that of 2.8 does too, from before its branch was cut, so 2.8 may have it.
        ("USE_ROCM_CK_GEMM", {"2.6": "no", "2.7": "no", "2.8": "unknown", "2.13": "yes"}),
        ("USE_LMDB", {"2.5": "unknown", "2.6": "no", "2.15": "no"}),
        ("BUILD_FUNCTORCH", {"1.12": "no", "2.0": "yes", "2.13": "yes", "2.14": "unknown", "2.15": "no"}),
    ],
)
def test_in_which_releases_an_option_is(name: str, presence: dict[str, str]) -> None:
    assert {version: option(name).presence_in(version).value for version in presence} == presence


def test_defaults_change_with_the_release() -> None:
    versions = ("2.0", "2.6", "2.10.0", "2.13", "2.14.1")
    assert [option("BUILD_TEST").default_in(version) for version in versions] == [
        None,
        "OFF",
        "OFF",
        "ON",
        "ON",
    ]
    assert [option("USE_XNNPACK").default_in(version) for version in versions] == [
        None,
        "ON",
        "ON",
        "ON",
        "OFF",
    ]
    assert option("USE_MKLDNN").default_in("2.6") == "${CPU_INTEL}"
    assert option("USE_QNNPACK").default_in("2.3") is None
    assert option("USE_CUDNN").depends == "USE_CUDA"
    assert option("USE_CUDA").depends == ""


def test_the_nearest_name() -> None:
    assert options().nearest("use_ncll") == "USE_NCCL"
    assert options().nearest("USE_FLASH_ATTN") == "USE_FLASH_ATTENTION"
    assert options().nearest("PYTHONPATH") is None
    assert options().find("use_nccl") is None


def test_of_every_release_it_is_known_whether_it_has_an_option_or_why_it_is_not() -> None:
    minors = [f"2.{minor}" for minor in range(16)]
    gaps = [
        known.name
        for known in options()
        if not known.note and any(known.presence_in(minor) is Presence.UNKNOWN for minor in minors)
    ]
    assert gaps == []
    assert sum(any(o.presence_in(minor) is Presence.UNKNOWN for minor in minors) for o in options()) == 26


def test_every_wrong_entry_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "options.toml"
    path.write_text(
        """
        [[tree]]
        version = "2.6"
        source = "https://example.org/2.6"

        [[option]]
        name = "USE_B"
        defaults = { "2.13" = "ON", "2.6" = "OFF" }
        seen = ["2.6", "2.7"]

        [[option]]
        name = "USE_A"
        defaults = { "2.6" = true }
        seen = ["2.6"]
        until = "last"

        [[option]]
        name = "USE_C"

        [[option]]
        name = "USE_D"
        seen = ["2.6"]
        absent = ["2.5", "2.6"]
        """,
        encoding="utf-8",
    )
    with pytest.raises(TorchwheelError) as caught:
        load_options(path)
    assert [(problem.what, problem.remedy) for problem in caught.value.problems] == [
        ("option 'USE_B': 'seen' names '2.7', which is no tree of this file", "correct that entry"),
        ("option 'USE_B': 'defaults' is out of order", "sort it by version"),
        ("option 'USE_B': says more than the trees do, without a source", "give 'source'"),
        ("option 'USE_A': 'until' is 'last', which is no version", "write it as in '12.6'"),
        ("option 'USE_A': 'defaults' has '2.6' = True", "write it as in \"2.6\" = 'ON'"),
        ("option 'USE_A': is out of order or there twice", "sort the options by name"),
        ("option 'USE_C': no release is known to have it", "give 'seen', 'since' or 'until'"),
        ("option 'USE_D': 'absent' names '2.5', which is no tree of this file", "correct that entry"),
        ("option 'USE_D': 'absent' names a version between those that have it", "correct that entry"),
    ]
