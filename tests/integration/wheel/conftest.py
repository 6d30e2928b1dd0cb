"""Samples, and what nvcc and other build backends make."""

from __future__ import annotations

from wheel_fixtures import nvcc, recipe, samples

__all__ = ["nvcc", "recipe", "samples"]
