"""The entry points that setuptools calls for every distribution, also in unrelated builds.

They import nothing of torchwheel until a setup.py has, or a hook of torchwheel's runs one that uses PyTorch's own
functions, because a fault or a slow import here would affect every setuptools build in an environment with torchwheel.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setuptools import Distribution

_TABLES = "torchwheel.extension.table_setup"


def finalize(distribution: Distribution) -> None:
    """Label and verify the wheels of a project whose setup.py or tables have torchwheel's extensions."""
    if _TABLES in sys.modules:
        # Only torchwheel's backend imports it, in the process of a project with tables.
        from torchwheel.extension import table_setup

        table_setup.add_extensions(distribution)
    if "torchwheel.extension.setuptools_ext" in sys.modules:
        # Without that module, the distribution has no such extension.
        from torchwheel.extension import setuptools_distribution

        setuptools_distribution.finalize(distribution)
    elif "_TORCHWHEEL_HOOK" in os.environ and "torch.utils.cpp_extension" in sys.modules:
        # Nor without this one, in a build by torchwheel's backend.
        from torchwheel.extension import setuptools_distribution

        setuptools_distribution.refuse_to_ignore_target(distribution)


def find_files(_: str = "") -> Iterable[str]:
    """Return the source files of a project with tables; setuptools itself finds those of other projects."""
    if _TABLES not in sys.modules:
        return ()
    # The same.
    from torchwheel.extension import table_setup

    return table_setup.find_files()
