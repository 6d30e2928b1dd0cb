"""The operator's Python function, its gradient, and its shapes for ``torch.compile`` and ``torch.export``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from stable_kernel import _C  # noqa: F401  # loading it registers torch.ops.stable_kernel

# The same wheel works with a PyTorch without CUDA, where this module could not be loaded.
if torch.backends.cuda.is_built() and find_spec("stable_kernel._cuda") is not None:
    from stable_kernel import _cuda  # noqa: F401  # loading it registers the operators for CUDA

_operators = torch.ops.stable_kernel


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``torch.nn.functional.silu(gate) * up``, rounded once.

    Args:
        gate: any shape; float32, float64, float16 or bfloat16.
        up: the same shape, type and device as gate.

    Returns:
        A tensor of gate's shape and type. It has a first derivative, but not a second one.

    Raises:
        RuntimeError: gate is of another type, or up differs from gate.
    """
    result: Tensor = _operators.swiglu(gate, up)
    return result


@torch.library.register_fake("stable_kernel::swiglu")
def _swiglu_fake(gate: Tensor, up: Tensor) -> Tensor:
    if up.shape != gate.shape:
        raise RuntimeError(f"up must have gate's shape {list(gate.shape)}, but has {list(up.shape)}")
    return torch.empty_like(gate, memory_format=torch.contiguous_format)


@torch.library.register_fake("stable_kernel::swiglu_backward")
def _swiglu_backward_fake(grad_out: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    grad_gate = torch.empty_like(gate, memory_format=torch.contiguous_format)
    return grad_gate, torch.empty_like(grad_gate)


def _keep_inputs(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _swiglu_backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = ctx.saved_tensors
    grad_gate, grad_up = _operators.swiglu_backward(grad_out, gate, up)
    return grad_gate, grad_up


def _no_second_derivative(ctx: Any, *gradients: Tensor) -> None:
    raise NotImplementedError("swiglu has no second derivative")


torch.library.register_autograd("stable_kernel::swiglu", _swiglu_backward, setup_context=_keep_inputs)
torch.library.register_autograd("stable_kernel::swiglu_backward", _no_second_derivative)
