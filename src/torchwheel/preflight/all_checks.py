"""All checks of rules: importing this module registers them."""

from __future__ import annotations

from torchwheel.preflight.checks import (  # noqa: F401 - importing them registers their checks
    architectures,
    build_environment,
    components,
    host_compiler,
    machine,
    published,
    toolkit,
    tree,
)
from torchwheel.preflight.registry import CHECKS

__all__ = ["CHECKS"]
