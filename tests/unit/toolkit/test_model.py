"""Ranges of CUDA versions against a toolkit's release and patch release."""

from __future__ import annotations

import pytest

from torchwheel.toolkit.cuda_toolkit import in_range
from torchwheel.versions import read_range


@pytest.mark.parametrize(
    ("allowed", "release", "patch_release", "expected"),
    [
        # Named to the minor version: every patch release is in, or none.
        ("==12.9.*", "12.9", None, True),
        ("==12.9", "12.9", "12.9.1", True),
        ("<=12.9", "12.9", "12.9.1", True),
        (">12.8", "12.8", "12.8.1", False),
        ("~=12.8", "12.9", "12.9.1", True),
        (">=12.8,<13", "13.0", None, False),
        # Named to the patch release: that decides.
        ("==12.9.1", "12.9", "12.9.1", True),
        ("==12.9.1", "12.9", "12.9.0", False),
        ("==12.9.1.*", "12.9", "12.9.1", True),
        (">=12.8.1", "12.8", "12.8.1", True),
        (">=12.8.1", "12.8", "12.8.0", False),
        (">=12.8.1,<12.9", "12.9", "12.9.1", False),
        # Where it is not known, what every patch release has in common decides.
        ("==12.9.1", "12.9", None, None),
        (">=12.8.1", "12.8", None, None),
        (">=12.8.1", "12.9", None, True),
        (">=12.8.1", "12.6", None, False),
        ("!=12.9.0", "12.9", None, None),
        ("==12.9.1,<12.9", "12.9", None, False),
    ],
)
def test_a_range_is_compared_as_exactly_as_it_is_written(
    allowed: str, release: str, patch_release: str | None, expected: bool | None
) -> None:
    assert in_range(release, patch_release, read_range(allowed)) is expected


def test_without_a_range_every_toolkit_is_in_it() -> None:
    assert in_range("12.9", None, None) is True
