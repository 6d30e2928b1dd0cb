"""Knowing before building: rules as data, a machine as data, and what the two come to.

``check`` holds a plan against every rule, and so do ``run_preflight`` and ``add_gpu_findings`` before a build;
``toolkit_support`` needs no machine. The rules are ``rules/*.toml``, and ``checks`` has one function for each.
"""

from __future__ import annotations

from torchwheel.preflight.report import (
    FIRST_OF_ALL,
    MISSING_KERNELS,
    Preflight,
    Report,
    add_gpu_findings,
    check,
    run_preflight,
)

__all__ = [
    "FIRST_OF_ALL",
    "MISSING_KERNELS",
    "Preflight",
    "Report",
    "add_gpu_findings",
    "check",
    "run_preflight",
]
