"""The shipped data files have the form that their loaders rely on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shipped_data import violations
from torchwheel import extension
from torchwheel.reporting.messages import FILE as MESSAGES

FOLDER = Path(extension.__file__).parent
FILES = sorted(path for path in FOLDER.rglob("*.toml") if path.name != MESSAGES)
HERE = Path(__file__).parent


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_has_the_form_of_its_schema(path: Path) -> None:
    assert violations(path, HERE / f"{path.stem}.schema.json") == []


def test_a_file_of_another_form_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "compile_flags.toml"
    shutil.copy(FOLDER / "compile" / file.name, file)
    with file.open("a", encoding="utf-8") as stream:
        stream.write('[icc]\nsource = "hearsay"\n')
    assert len(violations(file, HERE / "compile_flags.schema.json")) > 0
