"""The operators' Python functions, their gradients, and their shapes for ``torch.compile`` and ``torch.export``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from texture_kernels import _C  # noqa: F401  # loading it registers torch.ops.texture_kernels

_operators = torch.ops.texture_kernels


def rgb_to_lab(rgb: Tensor) -> Tensor:
    """CIE L*a*b* (D65) of sRGB images.

    Args:
        rgb: shape (..., 3, height, width), values in [0, 1]; float32, float64, float16 or bfloat16.

    Returns:
        A tensor of the same shape and type: L in [0, 100], a and b about in [-128, 128]. It has a first derivative,
        but not a second one.

    Raises:
        ValueError: for another shape.
        TypeError: for another type.
    """
    result: Tensor = _operators.rgb_to_lab(rgb)
    return result


def sobel(image: Tensor) -> Tensor:
    """Sobel's derivatives of images, as correlation with [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]] and its transpose.

    Args:
        image: shape (..., height, width); beyond the border, the border's pixels are repeated. float32, float64,
            float16 or bfloat16.

    Returns:
        A tensor of shape (..., 2, height, width): the derivative along x (width), then the one along y (height).

    Raises:
        ValueError: for another shape.
        TypeError: for another type.
    """
    result: Tensor = _operators.sobel(image)
    return result


@torch.library.register_fake("texture_kernels::rgb_to_lab")
def _rgb_to_lab_fake(rgb: Tensor) -> Tensor:
    if rgb.dim() < 3 or rgb.shape[-3] != 3:
        raise ValueError(f"rgb must have the shape (..., 3, height, width), but has {list(rgb.shape)}")
    return torch.empty_like(rgb, memory_format=torch.contiguous_format)


@torch.library.register_fake("texture_kernels::rgb_to_lab_backward")
def _rgb_to_lab_backward_fake(grad_lab: Tensor, rgb: Tensor) -> Tensor:
    return torch.empty_like(rgb, memory_format=torch.contiguous_format)


@torch.library.register_fake("texture_kernels::sobel")
def _sobel_fake(image: Tensor) -> Tensor:
    if image.dim() < 2:
        raise ValueError(f"image must have the shape (..., height, width), but has {list(image.shape)}")
    return image.new_empty((*image.shape[:-2], 2, *image.shape[-2:]))


@torch.library.register_fake("texture_kernels::sobel_backward")
def _sobel_backward_fake(grad_edges: Tensor) -> Tensor:
    return grad_edges.new_empty((*grad_edges.shape[:-3], *grad_edges.shape[-2:]))


def _keep_input(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _rgb_to_lab_backward(ctx: Any, grad_lab: Tensor) -> Tensor:
    (rgb,) = ctx.saved_tensors
    result: Tensor = _operators.rgb_to_lab_backward(grad_lab, rgb)
    return result


def _no_second_derivative(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("rgb_to_lab has no second derivative")


def _sobel_backward(ctx: Any, grad_edges: Tensor) -> Tensor:
    result: Tensor = _operators.sobel_backward(grad_edges)
    return result


def _sobel_backward_backward(ctx: Any, grad_image: Tensor) -> Tensor:
    # A linear operator's transpose has the operator itself as its transpose.
    return sobel(grad_image)


torch.library.register_autograd(
    "texture_kernels::rgb_to_lab", _rgb_to_lab_backward, setup_context=_keep_input
)
torch.library.register_autograd("texture_kernels::rgb_to_lab_backward", _no_second_derivative)
torch.library.register_autograd("texture_kernels::sobel", _sobel_backward)
torch.library.register_autograd("texture_kernels::sobel_backward", _sobel_backward_backward)
