"""The program, as every test of it runs it."""

from __future__ import annotations

from cli.fixtures import here, program, torchwheel, wide

__all__ = ["here", "program", "torchwheel", "wide"]
