"""The shipped data files and overlays have the form that their loaders rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from docs.settings_schema import DRAFT, definition_schema
from torchwheel.settings.components import read_components
from torchwheel.settings.known_keys import FILE_HEADER, TABLE_HEADER, Where
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.system.files import overlays_folder
from torchwheel.system.toml import read_toml

OVERLAYS = sorted(overlays_folder().glob("*.toml"))


def overlay_schema(where: Where) -> dict[str, Any]:
    definition = definition_schema(where, {**TABLE_HEADER, **FILE_HEADER})
    return {"$schema": DRAFT, **definition, "required": ["kind", "title", "source"]}


@pytest.mark.parametrize("path", OVERLAYS, ids=lambda path: path.name)
def test_every_overlay_has_the_form_of_its_schema(path: Path) -> None:
    content = read_toml(path)
    where = {"target": Where.TARGET, "profile": Where.PROFILE}[content["kind"]]
    jsonschema.validate(content, overlay_schema(where), jsonschema.Draft7Validator)
    sources = content["source"] if isinstance(content["source"], list) else [content["source"]]
    assert all(source.startswith("https://") for source in sources)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"kind": "targte"},
        {"kind": "target", "title": "t", "source": "s", "jbos": 1},
        {"kind": "target", "title": "t", "source": "s", "target": "t4"},
        {"kind": "target", "title": "t", "source": "s", "when": [{"jobs": 1}]},
    ],
)
def test_the_overlay_schema_refuses_mistakes(content: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, overlay_schema(Where.TARGET), jsonschema.Draft7Validator)


def test_no_component_shares_a_name_or_an_option() -> None:
    names = [name for item in read_components() for name in (item.name, *item.aliases)]
    options = [option for item in read_components() for option in item.options]
    assert len(names) == len(set(names))
    assert len(options) == len(set(options))


def test_components_depend_on_components() -> None:
    needed = {name for item in read_components() for group in item.depends_on for name in group}
    assert needed <= set(read_components().by_name)


def test_no_variable_is_named_twice() -> None:
    table = pytorch_variables().table
    names = [name for kind in ("variable", "ignored") for entry in table[kind] for name in entry["names"]]
    assert len(names) == len(set(names))
