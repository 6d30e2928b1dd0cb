"""One function for each rule."""

from __future__ import annotations

from collections.abc import Mapping

from torchwheel.preflight.checks import (  # noqa: F401 - importing them registers their checks
    architectures,
    build_tools,
    components,
    disk,
    driver,
    environment,
    host_compiler,
    libraries,
    memory,
    paths,
    published,
    python,
    stale_cache,
    submodules,
    target,
    toolkit,
    windows,
)
from torchwheel.preflight.registry import COMBINATION_CHECKS, SCENE_CHECKS, CombinationCheck, SceneCheck


def scene_checks() -> Mapping[str, SceneCheck]:
    """Rule id -> check, for the rules of scope ``machine``."""
    return SCENE_CHECKS


def combination_checks() -> Mapping[str, CombinationCheck]:
    """Rule id -> check, for the rules of scope ``combination``."""
    return COMBINATION_CHECKS
