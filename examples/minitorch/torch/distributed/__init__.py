"""Which communication backends this build has. minitorch itself never communicates."""

from __future__ import annotations

from torch import _C


def is_available() -> bool:
    """Whether this build was made with USE_DISTRIBUTED."""
    return hasattr(_C, "_c10d_backends")


def backends() -> list[str]:
    """Names of the backends, in alphabetical order."""
    return _C._c10d_backends() if is_available() else []
