"""Images as a network's input likes them: RGB to CIE L*a*b*, and Sobel's derivatives, for CPU and CUDA."""

from __future__ import annotations

from texture_kernels.operators import rgb_to_lab, sobel

__all__ = ["rgb_to_lab", "sobel"]
