"""The operators in PyTorch's own, in float64: what the kernels are compared with."""

from __future__ import annotations

import torch
from torch import Tensor

XYZ_FROM_RGB = torch.tensor(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]], dtype=torch.float64
)
WHITE = torch.tensor([0.9505, 1.0, 1.0890], dtype=torch.float64)


def rgb_to_lab(rgb: Tensor) -> Tensor:
    """CIE L*a*b* of sRGB, shape (..., 3, height, width), as IEC 61966-2-1 and CIE 15 define them."""
    rgb = rgb.double()
    # torch.where has gradients for both of its sides: the power must not be of a negative number.
    power = ((rgb.clamp(min=0.04045) + 0.055) / 1.055) ** 2.4
    linear = torch.where(rgb > 0.04045, power, rgb / 12.92)
    matrix = (XYZ_FROM_RGB / WHITE[:, None]).to(rgb.device)
    xyz = torch.einsum("ij,...jhw->...ihw", matrix, linear)
    delta = 6 / 29
    root = xyz.clamp(min=delta**3) ** (1 / 3)
    x, y, z = torch.where(xyz > delta**3, root, xyz / (3 * delta**2) + 4 / 29).unbind(-3)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], dim=-3)


def sobel(image: Tensor) -> Tensor:
    """Sobel's derivatives along x and y, shape (..., 2, height, width), with the border repeated."""
    planes = image.double().reshape(-1, 1, *image.shape[-2:])
    along_x = torch.tensor([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=torch.float64, device=image.device)
    filters = torch.stack([along_x, along_x.T])[:, None]
    padded = torch.nn.functional.pad(planes, (1, 1, 1, 1), mode="replicate")
    edges = torch.nn.functional.conv2d(padded, filters)
    return edges.reshape(*image.shape[:-2], 2, *image.shape[-2:])
