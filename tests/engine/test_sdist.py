from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel._toml import parse_toml
from torchwheel.engine.sdist import INNER_FOLDER, _pointing_inside


@pytest.mark.parametrize("general", ["", "[tool.torchwheel]\nsource = '../pytorch'\n"])
def test_source_points_inside_under_every_condition(general: str, tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    when = "[[tool.torchwheel.when]]\nmarker = \"sys_platform == '{}'\"\nsource = '../elsewhere'\njobs = 3\n"
    file.write_text(general + when.format("linux") + when.format("win32"), encoding="utf-8")
    table = parse_toml(_pointing_inside(file).decode(), "test")["tool"]["torchwheel"]
    assert table["source"] == INNER_FOLDER
    assert [sorted(block) for block in table["when"]] == [["jobs", "marker"]] * 2
