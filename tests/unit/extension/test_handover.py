"""What a setup.py says where no hook of torchwheel's runs it."""

from __future__ import annotations

import pytest

from torchwheel.extension.handover import as_variable
from torchwheel.reporting.messages import respell, settings_written_as


@pytest.mark.parametrize(
    ("remedy", "expected"),
    [
        ("name it: -C target=rtx5070", "name it: TORCHWHEEL_TARGET=rtx5070"),
        ("-C env.CFLAGS=-O2 or -C skip-check=a", "TORCHWHEEL_ENV=CFLAGS=-O2 or TORCHWHEEL_SKIP_CHECK=a"),
        ("name it with TORCHWHEEL_TARGET= or -C target=", "name it with TORCHWHEEL_TARGET="),
        ("-C target=rtx5070 or TORCHWHEEL_TARGET=rtx5070", "TORCHWHEEL_TARGET=rtx5070"),
        ("-C 'arch=8.0;9.0', or -C target=", "TORCHWHEEL_ARCH='8.0;9.0', or TORCHWHEEL_TARGET="),
        ("-C package-version=1.2", "TORCHWHEEL_PACKAGE_VERSION=1.2"),
        ("-C wheel.build-tag=1, -C nothing=2", "-C wheel.build-tag=1, -C nothing=2"),
    ],
)
def test_remedies_name_variables(remedy: str, expected: str) -> None:
    """setuptools.build_meta ignores ``-C target=``."""
    with settings_written_as(as_variable):
        assert respell(remedy) == expected
    assert respell(remedy) == remedy
