from __future__ import annotations

import pytest
import torch
from stable_kernel import swiglu
from torch import Tensor

# The relative and absolute error that one rounding to a type may cause, for values of a few units.
TOLERANCES = {
    torch.float64: (1e-14, 1e-14),
    torch.float32: (2e-6, 1e-6),
    torch.float16: (1e-3, 1e-4),
    torch.bfloat16: (8e-3, 1e-4),
}
SHAPES = [(), (1,), (7, 5), (3, 33, 31), (2, 100_003)]


def reference(gate: Tensor, up: Tensor) -> Tensor:
    return torch.nn.functional.silu(gate) * up


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device at hand")
    return name


@pytest.fixture(params=list(TOLERANCES), ids=lambda dtype: str(dtype).removeprefix("torch."))
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    torch.manual_seed(0)
    result: torch.dtype = request.param
    return result


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_result_and_gradients_are_pytorchs(shape: tuple[int, ...], device: str, dtype: torch.dtype) -> None:
    gate, up, grad_out = (2 * torch.randn(shape, dtype=dtype, device=device) for _ in range(3))
    inputs = [tensor.clone().requires_grad_() for tensor in (gate, up)]
    out = swiglu(*inputs)
    assert (out.dtype, out.device, out.shape) == (gate.dtype, gate.device, gate.shape)
    out.backward(grad_out)

    exact_inputs = [tensor.double().requires_grad_() for tensor in (gate, up)]
    exact = reference(*exact_inputs)
    exact.backward(grad_out.double())
    relative, absolute = TOLERANCES[dtype]
    for ours, theirs in zip(
        (out, inputs[0].grad, inputs[1].grad),
        (exact, exact_inputs[0].grad, exact_inputs[1].grad),
        strict=True,
    ):
        torch.testing.assert_close(ours.double(), theirs, rtol=relative, atol=absolute)


def test_large_values_stay_finite(device: str) -> None:
    gate = torch.tensor([-1e4, -100.0, 0.0, 100.0, 1e4], device=device, requires_grad=True)
    out = swiglu(gate, torch.ones_like(gate))
    out.sum().backward()
    assert out.tolist() == [0.0, pytest.approx(0, abs=1e-40), 0.0, 100.0, 1e4]
    assert gate.grad.tolist() == [0.0, pytest.approx(0, abs=1e-40), 0.5, 1.0, 1.0]


def test_any_strides(device: str) -> None:
    gate = torch.randn(9, 10, device=device).T[::2]
    up = torch.randn(5, 18, device=device)[:, ::2]
    assert not gate.is_contiguous()
    assert not up.is_contiguous()
    out = swiglu(gate, up)
    assert out.is_contiguous()
    torch.testing.assert_close(out, swiglu(gate.contiguous(), up.contiguous()), rtol=0, atol=0)


def test_no_elements(device: str) -> None:
    gate = torch.randn(3, 0, device=device, requires_grad=True)
    out = swiglu(gate, gate.detach())
    out.sum().backward()
    assert (out.shape, gate.grad.shape) == ((3, 0), (3, 0))


def test_gradcheck(device: str) -> None:
    gate, up = (torch.randn(4, 3, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(swiglu, (gate, up))


def test_second_derivative_is_refused(device: str) -> None:
    gate = torch.randn(3, device=device, requires_grad=True)
    (grad,) = torch.autograd.grad(swiglu(gate, gate).sum(), gate, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"^swiglu has no second derivative$"):
        grad.sum().backward()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad: bool, device: str, dtype: torch.dtype) -> None:
    operators = torch.ops.stable_kernel
    gate = torch.randn(6, 5, device=device, dtype=dtype, requires_grad=requires_grad)
    up = torch.randn(5, 6, device=device, dtype=dtype).T.requires_grad_(requires_grad)
    torch.library.opcheck(operators.swiglu.default, (gate, up))
    grad_out = torch.randn(6, 5, device=device, dtype=dtype)
    torch.library.opcheck(operators.swiglu_backward.default, (grad_out, gate.detach(), up.detach()))


@pytest.mark.parametrize("where", ["cpu", "meta"])
def test_wrong_shape_is_told(where: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        swiglu(torch.zeros(2, 3, device=where), torch.zeros(3, device=where))
    assert "up must have gate's shape [2, 3], but has [3]" in str(caught.value)


def test_wrong_types_are_told(device: str) -> None:
    gate = torch.zeros(2, device=device)
    with pytest.raises(RuntimeError) as differing:
        swiglu(gate, gate.double())
    assert "up must be of gate's type Float, but is Double" in str(differing.value)
    with pytest.raises(RuntimeError) as unsupported:
        swiglu(gate.int(), gate.int())
    assert "\"swiglu\" not implemented for 'Int'" in str(unsupported.value)
