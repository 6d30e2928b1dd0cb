from __future__ import annotations

import pytest
import reference
import torch
from texture_kernels import sobel

SHAPES = [(1, 1), (1, 6), (6, 1), (2, 2), (7, 5), (3, 33, 31), (2, 3, 16, 257)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_result_is_the_references(
    shape: tuple[int, ...], device: str, dtype: torch.dtype, tolerance: dict[str, float]
) -> None:
    image = torch.rand(shape, dtype=torch.float64, device=device).to(dtype)
    edges = sobel(image)
    assert (edges.dtype, edges.device) == (image.dtype, image.device)
    torch.testing.assert_close(edges.double(), reference.sobel(image), **tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradient_is_the_references(
    shape: tuple[int, ...], device: str, dtype: torch.dtype, tolerance: dict[str, float]
) -> None:
    values = torch.rand(shape, dtype=torch.float64, device=device).to(dtype)
    image = values.clone().requires_grad_()
    edges = sobel(image)
    grad_edges = torch.randn_like(edges)
    edges.backward(grad_edges)
    exact = values.double().requires_grad_()
    reference.sobel(exact).backward(grad_edges.double())
    torch.testing.assert_close(image.grad.double(), exact.grad, **tolerance)


def test_a_ramp_has_the_slope_that_the_filter_weighs(device: str) -> None:
    ramp = torch.arange(6.0, device=device).repeat(4, 1)
    along_x, along_y = sobel(ramp)
    assert along_x.tolist() == [[4.0, 8.0, 8.0, 8.0, 8.0, 4.0]] * 4
    assert along_y.tolist() == [[0.0] * 6] * 4


def test_any_strides(device: str) -> None:
    image = torch.rand(9, 10, 3, device=device).permute(2, 1, 0)[:, ::2]
    assert not image.is_contiguous()
    edges = sobel(image)
    assert edges.is_contiguous()
    torch.testing.assert_close(edges, sobel(image.contiguous()), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(0, 4, 4), (0, 4), (2, 4, 0)], ids=str)
def test_no_pixels(shape: tuple[int, ...], device: str) -> None:
    image = torch.rand(shape, device=device, requires_grad=True)
    edges = sobel(image)
    edges.sum().backward()
    assert edges.shape == (*shape[:-2], 2, *shape[-2:])
    assert image.grad.shape == shape


@pytest.mark.parametrize("shape", SHAPES[:5], ids=str)
def test_gradcheck(shape: tuple[int, ...], device: str) -> None:
    image = torch.rand(shape, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(sobel, image)
    assert torch.autograd.gradgradcheck(sobel, image)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad: bool, device: str, dtype: torch.dtype) -> None:
    operators = torch.ops.texture_kernels
    contiguous = torch.rand(2, 6, 5, device=device, dtype=dtype)
    strided = torch.rand(5, 6, device=device, dtype=dtype).T
    for image in (contiguous, strided):
        torch.library.opcheck(operators.sobel.default, (image.detach().requires_grad_(requires_grad),))
    grad_edges = torch.randn(2, 2, 6, 5, device=device, dtype=dtype, requires_grad=requires_grad)
    torch.library.opcheck(operators.sobel_backward.default, (grad_edges,))


@pytest.mark.parametrize("where", ["cpu", "meta"])
def test_wrong_shape_is_told(where: str) -> None:
    with pytest.raises(ValueError) as caught:
        sobel(torch.zeros(8, device=where))
    assert first_line(caught) == "image must have the shape (..., height, width), but has [8]"


def test_wrong_gradient_is_told(device: str) -> None:
    with pytest.raises(ValueError) as caught:
        torch.ops.texture_kernels.sobel_backward(torch.zeros(3, 4, 4, device=device))
    assert first_line(caught) == ("grad_edges must have the shape (..., 2, height, width), but has [3, 4, 4]")


def test_wrong_type_is_told(device: str) -> None:
    with pytest.raises(TypeError) as caught:
        sobel(torch.zeros(2, 2, dtype=torch.int64, device=device))
    assert first_line(caught) == "image must be of a floating point type, but is Long"


def first_line(caught: pytest.ExceptionInfo[Exception]) -> str:
    """The message without the C++ stack that PyTorch may add."""
    return str(caught.value).partition("\n")[0]
