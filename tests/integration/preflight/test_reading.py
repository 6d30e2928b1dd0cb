"""Reading toolkits, libraries and trees from the disk.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.preflight.facts import read_toolkit_facts
from torchwheel.toolkit.host_compiler import HostCompilerLimits


@pytest.mark.nvcc
def test_real_toolkit_limits() -> None:
    import shutil

    nvcc = shutil.which("nvcc")
    assert nvcc is not None
    from torchwheel.toolkit.cuda_releases import read_toolkits
    from torchwheel.toolkit.discover import discover_toolkits

    found = discover_toolkits({"PATH": str(Path(nvcc).parent)})[0]
    limits = read_toolkit_facts(found).limits
    release = read_toolkits().release(found.version)
    assert limits is not None and release is not None
    assert limits == HostCompilerLimits(release.gcc_max, release.clang_max, release.msvc_range)
