"""The GPU, where there is one and this build can use it."""

from __future__ import annotations

import re

from torch import _C


def device_count() -> int:
    """Number of usable GPUs; 0 in a build without CUDA."""
    return _C._cuda_getDeviceCount() if hasattr(_C, "_cuda_getDeviceCount") else 0


def is_available() -> bool:
    """Whether tensors can be put on a GPU."""
    return device_count() > 0


def get_device_name() -> str:
    """The current GPU's name. Raises RuntimeError without one."""
    return _C._cuda_getDeviceProperties()[0]


def get_device_capability() -> tuple[int, int]:
    """The current GPU's compute capability. Raises RuntimeError without one."""
    return _C._cuda_getDeviceProperties()[1:]


def get_arch_list() -> list[str]:
    """What the device code was compiled for, as ``["sm_90", "compute_90"]``.

    Unlike PyTorch's this answers without a GPU too, so that a build machine can check what it made.
    """
    return re.findall(r"code=(\w+)", _C._cuda_getArchFlags())
