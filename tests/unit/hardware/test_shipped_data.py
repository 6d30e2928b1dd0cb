"""The shipped data files have the form that their loaders rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from shipped_data import violations
from torchwheel import hardware

FILES = sorted(
    set(Path(hardware.__file__).parent.glob("*.toml")) - {Path(hardware.__file__).parent / "messages.toml"}
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_has_the_form_of_its_schema(path: Path) -> None:
    assert violations(path, Path(__file__).with_name(f"{path.stem}.schema.json")) == []
