"""From a path to a described tree, and what is refused.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import pytest

from real_tree.debian_root import SYSTEM
from torchwheel.system.paths import is_dir
from torchwheel.tree.source_tree import Generation, read_tree

REAL_TREE = SYSTEM.root / "src" / "pytorch"


@pytest.mark.real_tree
@pytest.mark.skipif(not is_dir(REAL_TREE), reason="the real PyTorch tree was not prepared on this machine")
def test_the_real_tree() -> None:
    tree = read_tree(REAL_TREE)
    assert (tree.name, tree.version_text, tree.generation) == ("torch", "2.6.0a0", Generation.SETUP_PY)
    assert tree.requires == (
        "setuptools",
        "wheel",
        "numpy",
        "ninja",
        "pyyaml",
        "cmake",
        "typing-extensions>=4.10.0",
        "requests",
    )
    assert (tree.minimum_cuda, tree.minimum_cmake) == ("11.0", "3.19")
    assert (tree.commit, tree.release_tag, tree.missing_submodules) == (None, None, ())
    use_nccl = "USE_CUDA OR USE_ROCM;UNIX;NOT APPLE"
    assert tree.options["USE_NCCL"].depends == use_nccl
    assert tree.options["USE_MKLDNN"].default == "${CPU_INTEL}"
    assert tree.options["USE_CUFILE"].depends == "USE_CUDA AND NOT WIN32"
    assert tree.options["USE_DISTRIBUTED"].type == "BOOL"
    assert tree.options["BLAS"].file == "cmake/Dependencies.cmake"
    assert {"TORCH_CUDA_ARCH_LIST", "CUDA_TOOLKIT_ROOT_DIR", "INTERN_BUILD_MOBILE"} < tree.known_names
    assert "USE_NO_SUCH_THING" not in tree.known_names
