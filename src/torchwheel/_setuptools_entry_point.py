"""The entry point that setuptools calls for every distribution, also in unrelated builds.

It imports nothing of torchwheel until a setup.py has, or a hook of torchwheel's runs one that uses PyTorch's own
functions, because a fault or a slow import here would affect every setuptools build in an environment with torchwheel.
"""

from __future__ import annotations

import os
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
    elif "_TORCHWHEEL_HOOK" in os.environ and "torch.utils.cpp_extension" in sys.modules:
        # Nor without this one, in a build by torchwheel's backend.
        from torchwheel.extension import setuptools_distribution

        setuptools_distribution.refuse_to_ignore_target(distribution)
