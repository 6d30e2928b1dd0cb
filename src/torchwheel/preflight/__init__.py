"""Knowing before building: rules as data, a machine as data, and what the two come to.

``check`` holds a plan against every rule and ``preflight_findings`` does so quickly before a build;
``lint.lint`` needs no machine. The rules are ``rules/*.toml``, and ``checks`` has one function for each.
"""

from __future__ import annotations

from torchwheel.preflight.report import Report, check, preflight_findings

__all__ = ["Report", "check", "preflight_findings"]
