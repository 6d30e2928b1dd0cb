"""minitorch: tensors of floats on the CPU and, where it was built with CUDA, on the GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

if sys.platform == "win32":
    # Extension modules do not find the DLLs beside them otherwise.
    os.add_dll_directory(str(Path(__file__).parent / "lib"))

from torch import __config__ as __config__
from torch import cuda as cuda
from torch import distributed as distributed
from torch import version as version
from torch._C import Tensor, _from_values, _full, scaled_dot_product_attention
from torch.version import __version__

__all__ = [
    "Tensor",
    "__version__",
    "full",
    "matmul",
    "ones",
    "scaled_dot_product_attention",
    "tensor",
    "zeros",
]


def _shape_of(data: Any) -> tuple[int, ...]:
    """The shape of nested lists, judged by the first item of each level."""
    if not isinstance(data, (list, tuple)):
        return ()
    return (len(data), *(_shape_of(data[0]) if data else ()))


def _flatten(data: Any, shape: tuple[int, ...]) -> Iterable[float]:
    if not shape:
        yield data
        return
    if not isinstance(data, (list, tuple)) or len(data) != shape[0]:
        raise ValueError(f"expected {shape[0]} items at every place of this dimension, not {data!r}")
    for item in data:
        yield from _flatten(item, shape[1:])


def tensor(data: Any, device: str = "cpu") -> Tensor:
    """A tensor of a number or of nested lists or tuples of numbers, which must be rectangular."""
    shape = _shape_of(data)
    return _from_values(list(_flatten(data, shape)), shape, device)


def full(shape: Sequence[int], value: float, device: str = "cpu") -> Tensor:
    """A tensor whose elements are all ``value``."""
    return _full(tuple(shape), value, device)


def ones(*shape: int, device: str = "cpu") -> Tensor:
    """A tensor of ones."""
    return full(shape, 1.0, device)


def zeros(*shape: int, device: str = "cpu") -> Tensor:
    """A tensor of zeros."""
    return full(shape, 0.0, device)


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """The matrix product of two matrices."""
    return left @ right
