"""The shipped CMake options, and in which releases they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.pytorch import releases as module
from torchwheel.pytorch.releases import BuildOption, build_options
from torchwheel.system.toml import read_toml
from torchwheel.versions import parse_numbers

FILE = Path(module.__file__).with_name("options.toml")


def option(name: str) -> BuildOption:
    return build_options()[name]


def presence_in(version: str, option: BuildOption) -> str:
    if parse_numbers(option.first) <= parse_numbers(version, 2) <= parse_numbers(option.last):
        assert not option.is_lacked_by(version)
        return "yes"
    return "no" if option.is_lacked_by(version) else "unknown"


@pytest.mark.parametrize(
    ("name", "presence"),
    [
        ("USE_NCCL", {"1.9": "unknown", "2.0": "yes", "2.6.0": "yes", "2.14.1": "yes", "2.16": "unknown"}),
        ("USE_NVSHMEM", {"2.7.1": "no", "2.8": "yes", "2.13": "yes", "2.15": "yes"}),
        ("USE_NNAPI", {"2.0": "yes", "2.13": "yes", "2.14": "no"}),
        ("USE_CUSPARSELT", {"2.0": "no", "2.1": "yes", "2.13": "yes", "2.15": "yes"}),
        # The tree of 2.6 lacks it; that of 2.8 does too, from before its branch was cut, so 2.8 may have it.
        ("USE_ROCM_CK_GEMM", {"2.6": "no", "2.7": "no", "2.8": "unknown", "2.13": "yes"}),
        ("BUILD_FUNCTORCH", {"1.12": "no", "2.0": "yes", "2.13": "yes", "2.14": "unknown", "2.15": "no"}),
    ],
)
def test_in_which_releases_an_option_is(name: str, presence: dict[str, str]) -> None:
    assert {version: presence_in(version, option(name)) for version in presence} == presence


def test_the_entries_are_sound() -> None:
    data = read_toml(FILE)
    trees = {row["version"] for row in data["trees"]}
    names = [name for row in data["option"] for name in row["names"]]
    assert len(names) == len(set(names))
    for row in data["option"]:
        seen, absent = row.get("seen", []), row.get("absent", [])
        assert {*seen, *absent} <= trees, row
        having = [parse_numbers(text) for text in (*seen, row.get("since"), row.get("until")) if text]
        assert not [text for text in absent if min(having) <= parse_numbers(text) <= max(having)], row
