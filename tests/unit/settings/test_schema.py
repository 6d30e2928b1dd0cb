"""The JSON schemas and the shipped data files, which have the form that their loaders rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from validate_pyproject.api import Validator

import torchwheel.settings.known_keys
from docs.settings_schema import DRAFT, definition_schema, schema_text
from torchwheel.settings.components import read_components
from torchwheel.settings.known_keys import FILE_HEADER, TABLE_HEADER, Where, all_keys
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.settings.schema import tool_schema
from torchwheel.system.files import overlays_folder
from torchwheel.system.toml import parse_toml, read_toml

GOOD = (
    "",
    'target = "rtx5070"\nprofile = ["minimal", "debug"]\narch = "12.0a"\n',
    'source = "../pytorch"\ncuda = "12.9"\njobs = 3\npackage-version = "2.6.0"\nlocal-version = "cu130.sm120"\n',
    'enable = "nccl,gloo"\ndisable = ["tests"]\ndefine = { A = true, B = 3, C = "x;y" }\nenv.CC = "clang"\n',
    'build-type = "Debug"\nbuild-dir = "b"\nbuild-env = "managed"\nskip-check = ["x"]\ntraceback = true\n',
    'default-target = "lab"\n[target.lab]\ninherits = "rtx5070"\ntitle = "lab"\ncuda-path = "/c"\n'
    "[[target.lab.when]]\nmarker = \"sys_platform == 'win32'\"\njobs = 1\n",
    '[[when]]\nmarker = "x"\ndisable = "mpi"\n[[extension]]\nname = "x"\n[adopted]\nbuild-backend = "b"\n'
    'backend-path = ["."]\n',
)
BAD = (
    "jbos = 3\n",
    'jobs = "3"\n',
    "jobs = 0\n",
    "target = 3\n",
    "cuda = 12.9\n",
    'cuda = "twelve"\n',
    'local-version = "a+b"\n',
    'package-version = "2.6.0+x"\n',
    'build-type = "Fast"\n',
    "define.X = [1]\n",
    "env.X = 1\n",
    'traceback = "yes"\n',
    '[target.lab]\nsource = "x"\n',
    '[target.lab]\ntarget = "x"\n',
    "[[when]]\njobs = 3\n",
    "[extension]\nname = 1\n",
)


def table(text: str) -> dict[str, Any]:
    return parse_toml(text, "test")


@pytest.fixture(scope="module")
def validate_pyproject() -> Validator:
    """validate-pyproject with every plugin that is installed, torchwheel's among them."""
    return Validator()


@pytest.mark.parametrize("text", GOOD)
def test_good_tables(text: str, validate_pyproject: Validator) -> None:
    jsonschema.validate(table(text), tool_schema(), jsonschema.Draft7Validator)
    validate_pyproject({"tool": {"torchwheel": table(text)}})


@pytest.mark.parametrize("text", BAD)
def test_bad_tables(text: str, validate_pyproject: Validator) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(table(text), tool_schema(), jsonschema.Draft7Validator)
    with pytest.raises(ValueError, match="torchwheel"):
        validate_pyproject({"tool": {"torchwheel": table(text)}})


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(tool_schema())


def test_every_key_is_in_it_with_its_documentation() -> None:
    properties = tool_schema()["properties"]
    assert set(properties) == {*all_keys(), "default-target", "when", "extension", "adopted"}
    assert {name: properties[name]["description"] for name in all_keys()} == {
        name: key.documentation for name, key in all_keys().items()
    }
    own = properties["target"]["oneOf"][-1]["additionalProperties"]["properties"]
    assert set(own) == {*all_keys(), *TABLE_HEADER, "when"} - {
        "source",
        "target",
        "extensions-from",
        "traceback",
    }


def test_the_shipped_file_is_not_stale() -> None:
    file = Path(torchwheel.settings.known_keys.__file__).with_name("torchwheel.schema.json")
    assert file.read_text(encoding="utf-8") == schema_text()


def overlay_schema(where: Where) -> dict[str, Any]:
    definition = definition_schema(where, {**TABLE_HEADER, **FILE_HEADER})
    return {"$schema": DRAFT, **definition, "required": ["kind", "title", "source"]}


@pytest.mark.parametrize("path", sorted(overlays_folder().glob("*.toml")), ids=lambda path: path.name)
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
