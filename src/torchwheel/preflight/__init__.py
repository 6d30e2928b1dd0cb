"""Knowing before building: rules as data, a machine as data, and what the two come to.

``check`` holds a plan against every rule, ``preflight_findings`` does so quickly before a build, ``lint`` does
so without a machine, and ``explain`` tells what a rule means. The rules are ``rules/*.toml``; ``checks`` has one
function for each.
"""

from __future__ import annotations

from torchwheel.preflight.explain import explain
from torchwheel.preflight.report import Report, check, preflight_findings

__all__ = ["Report", "check", "explain", "preflight_findings"]
