"""Which programs a build starts: a path is one word, whatever is in it.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from places import MINITORCH
from toolkit.trees import linux_installation
from torchwheel.plan.make import make_plan
from torchwheel.preflight.this_machine import read_facts
from torchwheel.survey import BuildRequest, survey


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_nvcc_in_a_folder_with_a_blank_is_started(tmp_path: Path) -> None:
    root = linux_installation(tmp_path / "my cuda" / "13.0", "13.0", "13.0.48")
    (root / "bin" / "nvcc").write_text("#!/bin/sh\necho release 13.0, V13.0.48\n", encoding="utf-8")
    (root / "bin" / "nvcc").chmod(0o755)
    environment = {**os.environ, "TORCHWHEEL_CACHE_DIR": str(tmp_path / "my cache")}
    asked = BuildRequest(MINITORCH, {"target": "rtx5070", "cuda-path": str(root)}, environment)
    facts = read_facts(environment, make_plan(survey(asked)))
    assert [found.toolkit.root for found in facts.toolkits or ()] == [str(root)]
    assert facts.unanswered == {}
