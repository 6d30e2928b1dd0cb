"""Loading settings from nothing but what a test gives."""

from __future__ import annotations

from settings.fixtures import linux, load, refuse, spark, windows

__all__ = ["linux", "load", "refuse", "spark", "windows"]
