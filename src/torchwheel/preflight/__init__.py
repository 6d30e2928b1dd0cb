"""Checks before a build: rules as data, applied to a machine as data.

``check_plan`` checks a plan against every rule, and so do ``run_preflight`` and ``add_gpu_findings`` before a build;
The rules are ``rules/*.toml``, with one function in ``checks`` for each.
"""

from __future__ import annotations

from torchwheel.preflight.registry import is_about_compilers
from torchwheel.preflight.report import (
    MISSING_KERNELS,
    NEEDLESS_BUILD,
    Preflight,
    Report,
    add_gpu_findings,
    check_plan,
    run_preflight,
)

__all__ = [
    "MISSING_KERNELS",
    "NEEDLESS_BUILD",
    "Preflight",
    "Report",
    "add_gpu_findings",
    "check_plan",
    "is_about_compilers",
    "run_preflight",
]
