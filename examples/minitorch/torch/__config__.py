"""How this build was configured."""

from __future__ import annotations

from torch._C import _show_config


def show() -> str:
    """A readable description, one ``NAME=VALUE`` a line."""
    return "minitorch built with:\n" + _show_config()
