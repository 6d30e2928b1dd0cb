"""The schemas of what the commands print."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import jsonschema
import pytest

import torchwheel.cli.json_output
from shipped_data import document_schema
from torchwheel.cli.json_output import print_document
from torchwheel.cli.main import COMMANDS as ALL_COMMANDS

COMMANDS = (
    "adopt", "build", "cache", "components", "configure", "diagnose", "doctor", "explain", "extension", "get",
    "gpus", "inspect", "lint", "targets", "toolkits",
)  # fmt: skip


def test_there_is_a_schema_for_each_command_with_documents_of_this_kind() -> None:
    folder = Path(torchwheel.cli.json_output.__file__).with_name("schemas")
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}.schema.json" for name in COMMANDS]


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_every_command_that_is_not_for_other_programs_prints_documents(command: str) -> None:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"torchwheel.cli.{command}").populate(parser)
    prints = command not in ("completion", "schema")
    assert ("--json" in parser._option_string_actions) is prints
    if command == "plan":
        jsonschema.Draft202012Validator.check_schema(document_schema("plan"))
    else:
        assert (command in COMMANDS) is prints


@pytest.mark.parametrize("command", COMMANDS)
def test_a_schema_is_valid_and_strict(command: str) -> None:
    schema = document_schema(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"What `torchwheel {command} --json` prints"
    validator = jsonschema.Draft202012Validator(schema)
    assert not validator.is_valid({})
    assert not validator.is_valid({"schema": 2, "command": command})
    assert schema["additionalProperties"] is False


def test_a_document_begins_with_its_version_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    print_document("gpus", gpus=["ä"])
    assert capsys.readouterr().out == (
        '{\n  "schema": 1,\n  "command": "gpus",\n  "gpus": [\n    "\\u00e4"\n  ]\n}\n'
    )
