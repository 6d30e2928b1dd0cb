"""Days of the last months, on which every isolated build of a CUDA extension would have found what it needs."""

from __future__ import annotations

import datetime

import pytest

from releases.installing import FULL, Index
from torchwheel.toolkit.pypi import requirements_for
from torchwheel.versions import major_minor

pytestmark = [
    pytest.mark.releases,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not FULL, reason="reads much metadata that no build needs; RELEASES=full runs it"),
]

# The second of each of the last six months.
_TODAY = datetime.date.today()
_MONTHS = [_TODAY.year * 12 + _TODAY.month - 1 - back for back in range(1, 7)]
DAYS = [f"{month // 12}-{month % 12 + 1:02d}-02" for month in _MONTHS]


@pytest.mark.parametrize("day", DAYS)
def test_the_hooks_requirements_fit_beside_the_newest_pytorch_of_a_day(day: str, index: Index) -> None:
    """Two resolutions, because the toolkit is installed in a folder of its own."""
    found = Index(index.own, index.uv).resolve(
        ["torch", "setuptools", "scikit-build-core", "ninja"], "3.12", "--exclude-newer", day
    )
    toolkit = Index(index.own, index.uv).resolve(
        requirements_for(major_minor(found["cuda-toolkit"])), "3.12", "--exclude-newer", day
    )
    assert major_minor(toolkit["nvidia-cuda-nvcc"]) == major_minor(found["cuda-toolkit"])
    print(f"{day}: torch {found['torch']}, cuda-toolkit {toolkit['cuda-toolkit']}")
