"""Small wheels that can be installed."""

from __future__ import annotations

from verification.fixtures import checked, gpus, surroundings

__all__ = ["checked", "gpus", "surroundings"]
