from __future__ import annotations

import pytest

from torchwheel.reporting.errors import find_nearest


@pytest.mark.parametrize(
    ("name", "candidates", "expected"),
    [
        ("jbos", ["jobs", "arch"], "jobs"),
        ("Cuda_Path", ["cuda", "cuda-path"], "cuda-path"),
        ("USE_NCLL", ["USE_NCCL", "USE_GLOO"], "USE_NCCL"),
        ("banana", ["jobs", "arch"], None),
        ("jobs", [], None),
        ("ab", ["ac", "aB"], "aB"),
        ("h1000", ["t1000", "h100", "h200"], "h100"),
        ("rtx507", ["rtx5070", "rtx507x"], "rtx507x"),
    ],
)
def test_nearest(name: str, candidates: list[str], expected: str | None) -> None:
    assert find_nearest(name, candidates) == expected
