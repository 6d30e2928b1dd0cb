"""Trees of both generations and planners for them."""

from __future__ import annotations

from plan.fixtures import here, legacy_plan, legacy_tree, modern_tree, plan

__all__ = ["here", "legacy_plan", "legacy_tree", "modern_tree", "plan"]
