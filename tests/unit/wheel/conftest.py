"""Samples, and what nvcc and other build backends make."""

from __future__ import annotations

from wheel_fixtures import foreign_wheel, nvcc, recipe, samples

__all__ = ["foreign_wheel", "nvcc", "recipe", "samples"]
