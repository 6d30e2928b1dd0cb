from __future__ import annotations

import pytest
import reference
import torch
from texture_kernels import rgb_to_lab
from torch import Tensor

SHAPES = [(3, 1, 1), (3, 7, 5), (2, 3, 33, 31), (2, 2, 3, 16, 257)]


def colour(*channels: float) -> Tensor:
    return torch.tensor(channels, dtype=torch.float64).reshape(3, 1, 1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_result_is_the_references(
    shape: tuple[int, ...], device: str, dtype: torch.dtype, tolerance: dict[str, float]
) -> None:
    rgb = torch.rand(shape, dtype=torch.float64, device=device).to(dtype)
    lab = rgb_to_lab(rgb)
    assert (lab.dtype, lab.device, lab.shape) == (rgb.dtype, rgb.device, rgb.shape)
    torch.testing.assert_close(lab.double(), reference.rgb_to_lab(rgb), **tolerance)


@pytest.mark.parametrize(
    ("rgb", "lab"),
    [
        ((0, 0, 0), (0, 0, 0)),
        ((1, 1, 1), (100, 0, 0)),
        ((0.5, 0.5, 0.5), (53.38897, 0, 0)),
        ((1, 0, 0), (53.23288, 80.10933, 67.22006)),
        ((0, 1, 0), (87.73704, -86.18463, 83.18116)),
        ((0, 0, 1), (32.30259, 79.19668, -107.86368)),
    ],
    ids=["black", "white", "grey", "red", "green", "blue"],
)
def test_known_colours(rgb: tuple[float, ...], lab: tuple[float, ...], device: str) -> None:
    # The published figures were made with other roundings of the matrix.
    torch.testing.assert_close(rgb_to_lab(colour(*rgb).to(device)).cpu(), colour(*lab), rtol=0, atol=0.05)


def test_values_outside_of_the_unit_interval_are_the_references(device: str) -> None:
    rgb = torch.linspace(-0.5, 1.5, 3 * 8 * 8, dtype=torch.float64, device=device).reshape(3, 8, 8)
    torch.testing.assert_close(rgb_to_lab(rgb), reference.rgb_to_lab(rgb))


def test_any_strides(device: str) -> None:
    rgb = torch.rand(2, 9, 3, 10, device=device).permute(0, 2, 3, 1)[:, :, ::2]
    assert not rgb.is_contiguous()
    lab = rgb_to_lab(rgb)
    assert lab.is_contiguous()
    torch.testing.assert_close(lab, rgb_to_lab(rgb.contiguous()), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (3, 0, 4), (2, 3, 4, 0)], ids=str)
def test_no_pixels(shape: tuple[int, ...], device: str) -> None:
    rgb = torch.rand(shape, device=device, requires_grad=True)
    lab = rgb_to_lab(rgb)
    lab.sum().backward()
    assert (lab.shape, rgb.grad.shape) == (rgb.shape, rgb.shape)


def test_gradient_is_the_references(device: str, dtype: torch.dtype) -> None:
    values = torch.rand(2, 3, 13, 17, dtype=torch.float64, device=device).to(dtype)
    grad_lab = torch.randn_like(values)
    rgb = values.clone().requires_grad_()
    rgb_to_lab(rgb).backward(grad_lab)
    exact = values.double().requires_grad_()
    reference.rgb_to_lab(exact).backward(grad_lab.double())
    # Gradients reach thousands, and their terms are of both signs: the error is one of the largest.
    error = (rgb.grad.double() - exact.grad).abs().max() / exact.grad.abs().max()
    assert error < 16 * torch.finfo(dtype).eps


def test_gradcheck(device: str) -> None:
    # From one side of 0.04045 to the other, where the transfer function has a corner, differences mean nothing.
    dark = torch.rand(2, 3, 3, 4, dtype=torch.float64, device=device) * 0.03
    bright = torch.rand(2, 3, 3, 4, dtype=torch.float64, device=device) * 0.9 + 0.06
    for rgb in (dark, bright):
        assert torch.autograd.gradcheck(rgb_to_lab, rgb.requires_grad_())


def test_second_derivative_is_refused(device: str) -> None:
    rgb = torch.rand(3, 2, 2, device=device, requires_grad=True)
    (grad,) = torch.autograd.grad(rgb_to_lab(rgb).sum(), rgb, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"^rgb_to_lab has no second derivative$"):
        grad.sum().backward()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad: bool, device: str, dtype: torch.dtype) -> None:
    operators = torch.ops.texture_kernels
    contiguous = torch.rand(2, 3, 6, 5, device=device, dtype=dtype)
    strided = torch.rand(6, 5, 3, device=device, dtype=dtype).permute(2, 0, 1)
    for rgb in (contiguous, strided):
        rgb = rgb.detach().requires_grad_(requires_grad)
        torch.library.opcheck(operators.rgb_to_lab.default, (rgb,))
    arguments = (torch.randn_like(contiguous), contiguous)
    torch.library.opcheck(operators.rgb_to_lab_backward.default, arguments)


@pytest.mark.parametrize("where", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("shape", "words"),
    [((4, 8, 8), "[4, 8, 8]"), ((3, 8), "[3, 8]"), ((8, 8, 3), "[8, 8, 3]"), ((), "[]")],
)
def test_wrong_shape_is_told(where: str, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        rgb_to_lab(torch.zeros(shape, device=where))
    assert first_line(caught) == f"rgb must have the shape (..., 3, height, width), but has {words}"


def test_wrong_type_is_told(device: str) -> None:
    with pytest.raises(TypeError) as caught:
        rgb_to_lab(torch.zeros(3, 2, 2, dtype=torch.uint8, device=device))
    assert first_line(caught) == "rgb must be of a floating point type, but is Byte"


def test_wrong_gradient_is_told(device: str) -> None:
    rgb = torch.zeros(3, 2, 2, device=device)
    backward = torch.ops.texture_kernels.rgb_to_lab_backward
    with pytest.raises(ValueError) as shape:
        backward(torch.zeros(3, 2, 3, device=device), rgb)
    assert first_line(shape) == "grad_lab must have rgb's shape [3, 2, 2], but has [3, 2, 3]"
    with pytest.raises(TypeError) as kind:
        backward(rgb.double(), rgb)
    assert first_line(kind) == "grad_lab must be of rgb's type Float, but is Double"


def first_line(caught: pytest.ExceptionInfo[Exception]) -> str:
    """The message without the C++ stack that PyTorch may add."""
    return str(caught.value).partition("\n")[0]
