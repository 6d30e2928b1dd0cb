"""Knowing before building: rules as data, a machine as data, and what the two come to.

``check`` holds a plan against every rule and ``preflighted`` does so quickly before a build;
``lint.lint`` needs no machine. The rules are ``rules/*.toml``, and ``checks`` has one function for each.
"""

from __future__ import annotations

from torchwheel.preflight.report import Report, check, instead_of_building, preflighted

__all__ = ["Report", "check", "instead_of_building", "preflighted"]
