"""The shipped data files have the form that their loaders rely on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shipped_data import PACKAGE, violations
from torchwheel.reporting.messages import FILE as MESSAGES

HERE = Path(__file__).parent
FILES = [
    path
    for folder in ("extension", "fleet", "hardware", "preflight", "proof", "pytorch", "settings")
    for path in sorted((PACKAGE / folder).rglob("*.toml"))
    if path.name not in (MESSAGES, "libraries.toml") and path.parent.name != "rules"
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_has_the_form_of_its_schema(path: Path) -> None:
    folder = path.relative_to(PACKAGE).parts[0]
    assert violations(path, HERE / folder / f"{path.stem}.schema.json") == []


def test_a_file_of_another_form_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "compile_flags.toml"
    shutil.copy(PACKAGE / "extension" / "compile" / file.name, file)
    with file.open("a", encoding="utf-8") as stream:
        stream.write('[icc]\nsource = "hearsay"\n')
    assert len(violations(file, HERE / "extension/compile_flags.schema.json")) > 0
