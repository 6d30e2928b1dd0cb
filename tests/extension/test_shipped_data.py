"""The shipped data files have the form that their loaders rely on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shipped_data import violations
from torchwheel import extension

FOLDER = Path(extension.__file__).parent
FILES = sorted(FOLDER.rglob("*.toml"))
HERE = Path(__file__).parent


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_has_the_form_of_its_schema(path: Path) -> None:
    folder = HERE / "profile" if path.parent.name == "profile" else HERE
    assert violations(path, folder / f"{path.stem}.schema.json") == []


def test_a_file_of_another_form_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "phases.toml"
    shutil.copy(FOLDER / "profile" / "phases.toml", file)
    with file.open("a", encoding="utf-8") as stream:
        stream.write('[icc]\nsource = "hearsay"\n')
    assert len(violations(file, HERE / "profile" / "phases.schema.json")) > 0
