"""What a wheel of extensions has to be, by its plan."""

from __future__ import annotations

from dataclasses import dataclass

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.wheel.verify import Expectation


@dataclass(frozen=True)
class ExpectedModule:
    """What an extension module was planned to be.

    Attributes:
        path: its name in the wheel.
        architectures: its device code, of all its sources together; None for none.
        stable_abi: the oldest PyTorch release that it must run with, if it uses the stable ABI alone.
        limited_api: the oldest Python that it must run with, ``3.10``, if it uses the limited API alone.
    """

    path: str
    architectures: ArchitectureList | None
    stable_abi: str | None = None
    limited_api: str | None = None


@dataclass(frozen=True)
class ExpectedExtensionWheel:
    """What a wheel of extensions was planned to be.

    Attributes:
        labels: name, version, tags; and the CUDA toolkit.
        requires: what it must require of others, ``torch>=2.14,<2.15``.
        modules: its extension modules.
    """

    labels: Expectation
    requires: tuple[str, ...]
    modules: tuple[ExpectedModule, ...]
