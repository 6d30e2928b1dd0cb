"""What a project changed in ``torchwheel`` as in ``torch.utils.cpp_extension``, before it builds.

setup.py files and programs assign to names of that module, and change its list of nvcc's flags.
Source: torch/utils/cpp_extension.py 2.14.1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import torchwheel

_NVCC_FLAGS = "COMMON_NVCC_FLAGS"
_CUDA_HOME = "CUDA_HOME"


@dataclass(frozen=True)
class ChangedFlags:
    """How a project changed the flags of all CUDA sources."""

    left_out: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def common_nvcc_flags() -> list[str]:
    """torch.utils.cpp_extension's flags for all CUDA sources, in one list, which a project may change."""
    flags: list[str] = vars(torchwheel).setdefault(_NVCC_FLAGS, _usual_nvcc_flags())
    return flags


def changed_nvcc_flags() -> ChangedFlags:
    """The differences between that list now and what it was."""
    flags = vars(torchwheel).get(_NVCC_FLAGS)
    if flags is None:
        return ChangedFlags()
    usual = _usual_nvcc_flags()
    return ChangedFlags(
        tuple(flag for flag in usual if flag not in flags),
        tuple(flag for flag in flags if flag not in usual),
    )


def with_assigned_toolkit(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with the CUDA toolkit in ``CUDA_HOME`` that a project assigned to the name."""
    home = vars(torchwheel).get(_CUDA_HOME)
    return environment if home is None else {**environment, _CUDA_HOME: os.fspath(home)}


def _usual_nvcc_flags() -> list[str]:
    from torchwheel.extension.compile.flags import flag_set  # which a load that is up to date does not need

    flags = flag_set("nvcc")
    return [flag for flag in flags.compile if flag not in flags.unless]
