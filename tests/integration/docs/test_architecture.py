"""The page of the architecture says which way a build goes; a real build goes that way."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import FrameType

import pytest

import torchwheel
from backend.builds import make_tree
from places import REPOSITORY
from torchwheel.engine.build import build_wheel
from torchwheel.survey import BuildRequest

PAGE = REPOSITORY / "docs/architecture.md"
ROOT = Path(torchwheel.__file__).parent


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="builds minitorch")
def test_a_build_passes_the_rooms_in_the_order_of_the_page(tmp_path: Path) -> None:
    named = re.findall(r"^\d+\. \*\*\w+\*\* \(`([\w.]+)`\)", PAGE.read_text("utf-8"), re.M)
    entered: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and ROOT in (file := Path(code.co_filename)).parents:
            function = ".".join((*file.relative_to(ROOT).with_suffix("").parts, code.co_name))
            if function in named and function not in entered:
                entered.append(function)

    tree = make_tree("setup.py", tmp_path / "tree")
    environment = {**os.environ, "TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}
    request = BuildRequest(
        tree, {"target": "cpu", "build-env": "managed", "package-version": "2.14.1"}, environment
    )
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        build_wheel(request, tmp_path / "dist")
    finally:
        sys.setprofile(before)
    assert len(named) == 9
    assert entered == named
