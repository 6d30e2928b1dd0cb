"""Everything that the checks look at, gathered before the first of them runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torchwheel.plan.model import Plan
from torchwheel.preflight.build_matrix import Combination, combination_of_plan
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.toolkit_facts import ToolkitFacts
from torchwheel.preflight.tree_facts import TreeFacts


@dataclass(frozen=True)
class Context:
    """One planned build on one machine.

    Attributes:
        tree: the source tree, beyond what the plan says of it.
    """

    plan: Plan
    host: HostFacts
    tree: TreeFacts

    @property
    def environment(self) -> Mapping[str, str]:
        """The machine's environment variables, as far as they matter."""
        return self.host.environment

    @property
    def variables(self) -> Mapping[str, str]:
        """The machine's environment variables, and over them those of the settings."""
        settings = self.plan.settings.variables
        return {**self.environment, **{name: str(setting.value) for name, setting in settings.items()}}

    @property
    def windows(self) -> bool:
        return self.host.host.system == "Windows"

    @cached_property
    def combination(self) -> Combination:
        """The part of the build that needs no machine."""
        return combination_of_plan(self.plan)

    @property
    def toolkit(self) -> ToolkitFacts | None:
        """What is known of the plan's toolkit; None without CUDA, or where the toolkit is only assumed."""
        chosen = self.plan.toolkit
        if chosen is None or self.host.toolkits is None:
            return None
        return next((facts for facts in self.host.toolkits if facts.toolkit.root == chosen.root), None)

    @property
    def managed_environment(self) -> bool:
        """Whether torchwheel installs the build requirements itself."""
        return self.plan.folders.environment is not None

    def mentions(self, *names: str) -> bool:
        """Whether the tree's CMake files use one of these identifiers."""
        return any(name in self.plan.tree.known_names for name in names)
