"""Adding files to wheels: everything else stays as it is, down to the compressed bytes.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from torchwheel.wheel.rewrite import add_members
from unit.wheel.test_rewrite import MEMBERS


# Even looking for pip as a module takes away the shim by which setuptools finds its own distutils.
@pytest.mark.skipif(not any(distributions(name="pip")), reason="pip is not installed")
def test_pip_installs_it(foreign_wheel: Path, tmp_path: Path) -> None:
    wheel = tmp_path / installable_name(foreign_wheel)
    add_members(foreign_wheel, wheel, MEMBERS, environment={})
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile", "--quiet"]
    subprocess.run(
        [*command, "--target", str(site), str(wheel)], check=True, capture_output=True, timeout=120
    )
    (installed,) = site.glob("*.dist-info")
    for name, data in MEMBERS.items():
        assert (installed / name).read_bytes() == data


def installable_name(wheel: Path) -> str:
    """The wheel's name with tags that fit every interpreter, so that pip takes it here."""
    name, version = wheel.name.split("-")[:2]
    return f"{name}-{version}-py3-none-any.whl"
