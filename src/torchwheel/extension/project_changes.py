"""What a project changed in ``torchwheel`` as in ``torch.utils.cpp_extension``, before it builds.

setup.py files and programs assign to names of that module, and change its list of nvcc's flags.
Source: torch/utils/cpp_extension.py 2.14.1.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from torchwheel.system.files import read_beginning

# The names of the package, which imports these modules when it is asked for them, so importing it would be a circle.
_NAMES = vars(sys.modules["torchwheel"])
_NVCC_FLAGS = "COMMON_NVCC_FLAGS"
_CUDA_HOME = "CUDA_HOME"
_NAME = re.compile(r"^(?:def |class )?([^\W\d]\w*)", re.MULTILINE)
# Only the project itself uses the others; the toolkit that torchwheel chooses needs no check.
_HARMLESS = frozenset(
    {
        _NVCC_FLAGS, _CUDA_HOME, "BuildExtension", "CUDAExtension", "CppExtension", "load", "load_inline",
        "_check_cuda_version",
    }
)  # fmt: skip


@dataclass(frozen=True)
class ChangedFlags:
    """How a project changed the flags of all CUDA sources."""

    left_out: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def common_nvcc_flags() -> list[str]:
    """torch.utils.cpp_extension's flags for all CUDA sources, in one list, which a project may change."""
    flags: list[str] = _NAMES.setdefault(_NVCC_FLAGS, _usual_nvcc_flags())
    return flags


def changed_nvcc_flags() -> ChangedFlags:
    """The differences between that list now and what it was."""
    flags = _NAMES.get(_NVCC_FLAGS)
    if flags is None:
        return ChangedFlags()
    usual = _usual_nvcc_flags()
    return ChangedFlags(
        tuple(flag for flag in usual if flag not in flags),
        tuple(flag for flag in flags if flag not in usual),
    )


def with_assigned_toolkit(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with the CUDA toolkit in ``CUDA_HOME`` that a project assigned to the name."""
    home = _NAMES.get(_CUDA_HOME)
    return environment if home is None else {**environment, _CUDA_HOME: os.fspath(home)}


def replaced_names(torch: Path) -> tuple[str, ...]:
    """The names of torch.utils.cpp_extension that a project assigned without an effect on its commands.

    Args:
        torch: the folder of the installed PyTorch.
    """
    known = names_of_torch(torch) - _HARMLESS
    return tuple(
        name
        for name, value in _NAMES.items()
        if name in known and not name.startswith("__") and not isinstance(value, ModuleType)
    )


def names_of_torch(torch: Path) -> frozenset[str]:
    """Every name of torch.utils.cpp_extension, which is not imported."""
    text = read_beginning(torch / "utils" / "cpp_extension.py")
    return frozenset(_NAME.findall(text))


def _usual_nvcc_flags() -> list[str]:
    from torchwheel.extension.compile.flags import flag_set  # which a load that is up to date does not need

    flags = flag_set("nvcc")
    return [flag for flag in flags.compile if flag not in flags.unless]
