"""The plan as a JSON document, against the schema that ships."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from plan.planning import LINUX, Planner, toolkit
from shipped_data import document_schema
from torchwheel.host.machine import Host, described_host
from torchwheel.plan.output import decisions_document, plan_document
from torchwheel.tree.source_tree import Tree

PROJECT = '[tool.torchwheel]\ntarget = "h100"\ndisable = ["nccl"]\nenv.CFLAGS = "-O1"\n'


def checked(document: dict[str, Any]) -> dict[str, Any]:
    """The document after a journey as text, if the schema has no objection."""
    travelled: dict[str, Any] = json.loads(json.dumps(document))
    jsonschema.Draft202012Validator(document_schema("plan")).validate(travelled)
    assert travelled == document
    return travelled


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(document_schema("plan"))


def test_a_whole_document(plan: Planner, modern_tree: Tree, tmp_path: Path) -> None:
    made = plan(
        {"target": "rtx5070", "cuda-path": "/opt/cuda-13.0", "jobs": "4"},
        tree=replace(modern_tree, release_tag="v2.14.1", commit="1eba9b3a3c7c6d5fd60a6a9a3e8a5b4ab8a1f6ad"),
        environment={"USE_NCCL": "1", "CFLAGS": "-O2"},
        pyproject=PROJECT,
        named=toolkit("13.0", "/opt/cuda-13.0"),
        kept=tmp_path / "environment",
    )
    document = checked(plan_document(made, made.findings))
    assert (document["target"], document["architectures"]) == (["rtx5070"], ["sm120"])
    assert document["wheel"] == "torch-2.14.1+cu130.sm120-cp311-cp311-linux_x86_64.whl"
    assert document["version"] == {
        "full": "2.14.1+cu130.sm120",
        "base": "2.14.1",
        "local": "cu130.sm120",
        "origin": "the tree's release tag",
    }
    assert document["toolkit"] == {
        "root": "/opt/cuda-13.0",
        "version": "13.0",
        "nvcc": "/opt/cuda-13.0/bin/nvcc",
        "origin": "nvcc on PATH",
    }
    assert document["folders"]["environment"] == str(tmp_path / "environment")
    assert document["config_settings"] == made.inner_config_settings
    source = {"layer": "environment", "origin": "variable USE_NCCL"}
    beaten = {"layer": "project", "origin": "pyproject.toml [tool.torchwheel]", "replaced": []}
    replaced = [{"key": "define.USE_NCCL", "value": "false", **beaten}]
    assert {"key": "define.USE_NCCL", "value": "1", **source, "replaced": replaced} in document["settings"]
    assert {"name": "USE_NCCL", "value": "1", **source, "replaced": replaced} in document["defines"]
    assert {
        "name": "PATH",
        "value": "/opt/cuda-13.0/bin",
        "layer": "-C",
        "origin": "-C cuda-path",
        "prepend": True,
        "replaced": [],
    } in document["environment"]
    assert document["findings"][0]["id"] == "ambient-decides"


@pytest.mark.parametrize(
    ("config", "platform"),
    [
        ({}, "linux_x86_64"),
        ({"target": "cpu"}, "linux_x86_64"),
        ({"target": "cpu", "profile": "minimal"}, "macosx_14_0_arm64"),
        ({"target": "rtx5070"}, "win_amd64"),
        ({"target": "gb10", "profile": "minimal"}, "linux_aarch64"),
        ({"target": "a100,t4", "arch": "7.5;compute_80;12.0f"}, "linux_x86_64"),
        ({"target": "native"}, "win_amd64"),
        ({"target": "t4", "cuda": "<12", "cmake.args": ["-Wno-dev", "--fresh"]}, "linux_x86_64"),
    ],
)
@pytest.mark.parametrize("planner", ["plan", "legacy_plan"])
def test_every_kind_of_plan_keeps_to_the_schema(
    planner: str, config: dict[str, Any], platform: str, request: pytest.FixtureRequest
) -> None:
    host: Host = described_host(platform, python_version="3.12.1")
    made = request.getfixturevalue(planner)(config, host=host)
    document = checked(plan_document(made, made.findings))
    assert [d["name"] for d in document["defines"]] == [d.name for d in made.defines]
    assert [v["name"] for v in document["environment"]] == [v.name for v in made.variables]
    assert [f["id"] for f in document["findings"]] == [f.id for f in made.findings]


def test_what_the_user_lets_pass_is_named(plan: Planner) -> None:
    config = {"skip-check": "no-target,no-such-error"}
    for made, skipped in ((plan(config), ["no-target"]), (plan({"target": "cpu", **config}), [])):
        assert checked(plan_document(made, made.findings))["skipped"] == skipped


def test_the_schema_refuses_what_it_does_not_know(plan: Planner) -> None:
    made = plan({"target": "cpu"}, host=LINUX)
    document = plan_document(made, made.findings)
    with pytest.raises(jsonschema.ValidationError, match="'surprise' was unexpected"):
        checked(document | {"surprise": 1})


def test_the_manifest_keeps_no_value_of_a_variable_that_the_build_does_not_read(plan: Planner) -> None:
    planned = plan({"target": "cpu", "env.HF_TOKEN": "hf_secret", "env.MAX_JOBS": "2", "env.USE_MINE": "1"})
    text = json.dumps(decisions_document(planned.settings, planned.findings))
    recorded = {layer["key"]: layer["value"] for layer in json.loads(text)["layers"]}
    assert recorded["env.HF_TOKEN"] == "(not recorded)"
    assert "hf_secret" not in text
