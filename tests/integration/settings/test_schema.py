"""

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from validate_pyproject import cli

from settings.test_project import SIX_MISTAKES


def test_validate_pyprojects_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.torchwheel]\ntarget = "rtx5070"\n', encoding="utf-8")
    assert cli.main([str(file)]) == 0
    file.write_text(SIX_MISTAKES, encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        cli.main([str(file)])
    assert caught.value.code == 1
    assert f"Invalid file: {file}" in capsys.readouterr().out
