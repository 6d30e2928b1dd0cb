"""The real PyTorch 2.6.0 tree, and torchwheel installed beside it."""

from __future__ import annotations

import debian_root
import pytest

from debian_system import reason_to_skip


@pytest.fixture(scope="session")
def torchwheel() -> str:
    """torchwheel's command inside the system that holds the real tree."""
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    debian_root.prepare()
    return debian_root.SYSTEM.install_torchwheel("/opt/torchwheel", "--system-site-packages")
