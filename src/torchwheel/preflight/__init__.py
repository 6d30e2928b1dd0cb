"""Knowing before building: rules as data, a machine as data, and what the two come to.

``check`` holds a plan against every rule, and so do ``preflighted`` and ``with_gpu_findings`` before a build;
``toolkit_support`` needs no machine. The rules are ``rules/*.toml``, and ``checks`` has one function for each.
"""

from __future__ import annotations

from torchwheel.preflight.report import (
    FIRST_OF_ALL,
    MISSING_KERNELS,
    Report,
    check,
    preflighted,
    with_gpu_findings,
)

__all__ = ["FIRST_OF_ALL", "MISSING_KERNELS", "Report", "check", "preflighted", "with_gpu_findings"]
