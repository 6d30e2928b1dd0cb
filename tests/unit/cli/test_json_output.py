"""The schemas of what the commands print."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import torchwheel.cli
from cli.running import Run
from shipped_data import document_schema
from torchwheel.cli.main import COMMANDS as ALL_COMMANDS
from torchwheel.cli.main import make_parsers
from torchwheel.cli.schema import find_schemas
from torchwheel.reporting.terminal import print_document
from torchwheel.settings.schema import tool_schema
from wheel_samples import manifest_schema

COMMANDS = (
    "adopt", "build", "cache", "components", "diagnose", "diff", "doctor", "explain", "get",
    "gpus", "index", "inspect", "matrix", "status", "toolkits", "verify",
)  # fmt: skip


def test_there_is_a_schema_for_each_command_with_documents_of_this_kind() -> None:
    folder = Path(torchwheel.cli.__file__).with_name("schemas")
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{name}.schema.json" for name in (*COMMANDS, "extension-plan", "problems")
    )


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_every_command_that_is_not_for_other_programs_prints_documents(command: str) -> None:
    parser = make_parsers([command])[1][command]
    prints = command not in ("completion", "schema")
    # What matrix prints is a document anyway.
    assert ("--json" in parser._option_string_actions) is (prints and command != "matrix")
    if command == "plan":
        jsonschema.Draft202012Validator.check_schema(document_schema("plan"))
    else:
        assert (command in COMMANDS) is prints


@pytest.mark.parametrize("command", COMMANDS)
def test_a_schema_is_valid_and_strict(command: str) -> None:
    schema = document_schema(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    option = "" if command == "matrix" else " --json"
    assert schema["title"] == f"What `torchwheel {command}{option}` prints"
    validator = jsonschema.Draft202012Validator(schema)
    assert not validator.is_valid({})
    assert not validator.is_valid({"schema": 2, "command": command})
    assert schema["additionalProperties"] is False


def test_a_document_begins_with_its_version_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    print_document("gpus", gpus=["ä"])
    assert capsys.readouterr().out == (
        '{\n  "schema": 1,\n  "command": "gpus",\n  "gpus": [\n    "\\u00e4"\n  ]\n}\n'
    )


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["plan", "/nonexist"], 2),
        (["plan", "--target", "cpu", "-C", "novalue", "."], 2),
        (["diagnose", "/nonexist"], 2),
        (["explain", "xx"], 2),
        (["gpus", "nonsense"], 2),
        (["components", "/nonexist"], 2),
        (["adopt", "/nonexist"], 2),
        (["status", "nonsense"], 2),
    ],
)
def test_a_command_that_fails_prints_a_document_of_what_is_wrong(
    words: list[str], status: int, torchwheel: Run
) -> None:
    result = torchwheel(*words, "--json")
    assert result.status == status
    document = json.loads(result.out)
    jsonschema.validate(document, document_schema("problems"), cls=jsonschema.Draft202012Validator)
    assert (document["command"], document["ok"]) == (words[0], False)
    for problem in document["problems"]:
        assert problem["what"] in result.err


@pytest.mark.parametrize(
    ("words", "command", "id"),
    [
        (["plan", "--json", "--nonsense"], "plan", "wrong-usage"),
        (["frobnicate", "--json"], "", "wrong-usage"),
    ],
)
def test_what_is_wrong_with_the_command_line_is_a_document_too(
    words: list[str], command: str, id: str, torchwheel: Run
) -> None:
    result = torchwheel(*words)
    document = json.loads(result.out)
    assert (result.status, document["command"], document["ok"]) == (2, command, False)
    assert [one["id"] for one in document["problems"]] == [id]


@pytest.mark.usefixtures("wide")
def test_a_fault_of_torchwheels_own_is_no_traceback(torchwheel: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchwheel.cli.gpus.run", lambda _parsed: 1 // 0)
    result = torchwheel("gpus", "--json", faulty=True)
    (problem,) = json.loads(result.out)["problems"]
    assert problem["id"] == "internal-error"
    assert result.err.startswith(
        f"torchwheel: {problem['origin']}: {problem['what']}  [internal-error]\n    why: "
    )
    assert "Traceback" not in result.err
    monkeypatch.setenv("TORCHWHEEL_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        torchwheel("gpus")


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
