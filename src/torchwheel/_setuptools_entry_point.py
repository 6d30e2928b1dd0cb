"""The entry point that setuptools calls for every distribution, also in unrelated builds.

It imports nothing of torchwheel until a setup.py has, because a fault or a slow import here would affect every
setuptools build in an environment with torchwheel.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setuptools import Distribution


def finalize(distribution: Distribution) -> None:
    """Label and verify the wheels of a project whose setup.py has torchwheel's extensions."""
    if "torchwheel.extension.setuptools_ext" in sys.modules:
        # Without that module, the distribution has no such extension.
        from torchwheel.extension import setuptools_distribution

        setuptools_distribution.finalize(distribution)
