"""A checkout to make jobs for."""

from __future__ import annotations

from fleet.fixtures import checkout

__all__ = ["checkout"]
