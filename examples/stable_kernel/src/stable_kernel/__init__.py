"""SwiGLU, ``silu(gate) * up``, in one kernel: one wheel for every Python from 3.10 and every PyTorch from 2.10 on."""

from __future__ import annotations

from stable_kernel.operators import swiglu

__all__ = ["swiglu"]
