"""Sites of wheels: what enters, what is written again, and what installers read.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from extension.compiled_modules import written_wheel
from fleet.sites import fleet_of
from integration.verification.test_libraries import MODULE, needing
from refusals import ids_of
from torchwheel.fleet.site import Choices, update_site
from unit.fleet.test_site import Links, update


def test_two_runs_at_a_time_add_their_wheels(tmp_path: Path) -> None:
    site, wheels = tmp_path / "site", fleet_of(tmp_path / "dist")
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "torchwheel.cli.main", "index", wheel, "-o", site, "--variants"]
        )
        for wheel in wheels
    ]
    assert [run.wait(120) for run in runs] == [0] * len(wheels)
    assert len(update(site).wheels) == len(Links(site / "simple/torch/index.html").links) == 4


@pytest.mark.parametrize(
    ("needed", "tag"),
    [("libc10.so", "cp311-cp311-linux_x86_64"), ("libcudnn.so.9", "cp311-cp311-manylinux_2_28_x86_64")],
)
def test_what_verify_refuses_is_not_added(needed: str, tag: str, tmp_path: Path) -> None:
    """A torch without a library of its own, and one that does not require its cuDNN."""
    files = {
        "torch/__init__.py": b"",
        "torch/version.py": b"__version__ = '1.2'\n",
        MODULE: needing(tmp_path, needed),
    }
    wheel = written_wheel(tmp_path / "dist", files, version="1.2", tag=tag, requires=())
    assert ids_of(update_site, tmp_path / "site", [wheel], {}, Choices()) == ["library-not-found"]
    assert not list((tmp_path / "site").glob("*/simple"))
