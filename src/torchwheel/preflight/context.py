"""Everything that the checks look at, gathered before the first of them runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torchwheel.plan.model import Plan
from torchwheel.preflight.build_matrix import Combination, combination_of_plan
from torchwheel.preflight.facts import HostFacts, ToolkitFacts
from torchwheel.tree.submodules import WrongCommit


@dataclass(frozen=True)
class TreeFacts:
    """What reading a source tree beyond its plan tells.

    Attributes:
        wrong_commits: submodules at another commit than the recorded one.
        fetches_nccl: whether the build gets NCCL from the network.
        stale_options: options that a CMakeCache.txt in the tree's own ``build`` holds other values for.
        cxx_bytes: size of the C and C++ sources, 0 where not known.
        cuda_bytes: size of the CUDA sources, 0 where not known.
    """

    wrong_commits: tuple[WrongCommit, ...] = ()
    fetches_nccl: bool = False
    stale_options: tuple[str, ...] = ()
    cxx_bytes: int = 0
    cuda_bytes: int = 0


@dataclass(frozen=True)
class Scene:
    """One planned build on one machine.

    Attributes:
        plan: the plan.
        host: the machine.
        tree: the source tree, beyond what the plan says of it.
    """

    plan: Plan
    host: HostFacts
    tree: TreeFacts

    @property
    def environment(self) -> Mapping[str, str]:
        """The machine's environment variables, as far as they matter."""
        return self.host.environment

    @cached_property
    def combination(self) -> Combination:
        """The part of the scene that needs no machine."""
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
