"""One function for each rule; importing this registers them all."""

from __future__ import annotations

from torchwheel.preflight.checks import (
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

__all__ = [
    "architectures",
    "build_tools",
    "components",
    "disk",
    "driver",
    "environment",
    "host_compiler",
    "libraries",
    "memory",
    "paths",
    "published",
    "python",
    "stale_cache",
    "submodules",
    "target",
    "toolkit",
    "windows",
]
