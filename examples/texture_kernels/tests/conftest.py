"""Every test of an operator runs on the CPU and, where there is one, on a CUDA device."""

from __future__ import annotations

import pytest
import torch

# The relative and absolute error that the rounding to a type may cause, for results of about 100.
TOLERANCES = {
    torch.float64: (1e-12, 1e-10),
    torch.float32: (1e-5, 1e-3),
    torch.float16: (1e-3, 0.1),
    torch.bfloat16: (1e-2, 1.0),
}


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device at hand")
    return name


@pytest.fixture(params=list(TOLERANCES), ids=lambda dtype: str(dtype).removeprefix("torch."))
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    result: torch.dtype = request.param
    return result


@pytest.fixture
def tolerance(dtype: torch.dtype) -> dict[str, float]:
    relative, absolute = TOLERANCES[dtype]
    return {"rtol": relative, "atol": absolute}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
