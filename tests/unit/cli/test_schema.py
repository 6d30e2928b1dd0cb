"""``torchwheel schema``."""

from __future__ import annotations

import json

import jsonschema
import pytest

from cli.running import Run
from torchwheel.cli.schema import find_schemas
from torchwheel.settings.schema import tool_schema
from wheel_samples import manifest_schema


@pytest.mark.parametrize("name", find_schemas())
def test_every_schema_is_printed_as_it_is_shipped(name: str, torchwheel: Run) -> None:
    result = torchwheel("schema", name)
    assert (result.status, result.err) == (0, "")
    schema = json.loads(result.out)
    jsonschema.validators.validator_for(schema).check_schema(schema)
    expected = {"manifest": manifest_schema, "torchwheel": tool_schema}
    if name in expected:
        assert schema == expected[name]()


def test_all_are_listed(torchwheel: Run) -> None:
    result = torchwheel("schema")
    assert (result.status, result.err) == (0, "")
    assert [line.split()[0] for line in result.out.splitlines()] == ["NAME", *find_schemas()]
    assert {"build", "manifest", "plan", "torchwheel"} <= find_schemas().keys()


def test_one_that_is_not_there(torchwheel: Run) -> None:
    assert torchwheel("schema", "manifst").refusal == (2, "", ["unknown-schema"])
