"""

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from answered import answered
from torchwheel.hardware.arch import parse_architectures


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
def test_nvcc_takes_the_options_as_they_are(tmp_path: Path) -> None:
    source = tmp_path / "empty.cu"
    source.touch()
    options = parse_architectures("9.0 9.0a 12.0a 12.0f compute_120 10.3+PTX compute_100f").for_nvcc()
    answer = answered(["nvcc", "--dryrun", "-c", str(source), *options])
    assert answer.returncode == 0, answer.stderr
    for image in ("sm_90", "sm_90a", "sm_120a", "sm_120f", "compute_120", "compute_103", "compute_100f"):
        assert re.search(rf"\b{image}\b", answer.stderr), image
