"""The plan as a JSON document, against the schema that ships, and as a page for people."""

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
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.output import decisions_document, plan_document, render_plan
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


H100 = '[tool.torchwheel]\ntarget = "h100"\npackage-version = "2.14.1"\ndisable = ["nccl"]\n'


def here(made: Plan) -> Plan:
    """A plan as it is for this machine, where it says what it builds in."""
    return replace(made, host=replace(made.host, here=True))


def test_the_whole_page(plan: Planner, tmp_path: Path) -> None:
    made = plan({"cuda-path": "/opt/cuda-13.0"}, pyproject=H100, named=toolkit("13.0", "/opt/cuda-13.0"))
    made, root = here(made), made.folders.root
    assert render_plan(made, made.findings, 1000).splitlines() == [
        "wheel        torch-2.14.1+cu130.sm90.nonccl-cp311-cp311-linux_x86_64.whl",
        "target       h100",
        f"tree         {made.tree.root} (2.14.1a0, scikit-build-core)",
        "version      2.14.1+cu130.sm90.nonccl (base: as requested)",
        "device code  9.0",
        "CUDA         13.0 in /opt/cuda-13.0 (nvcc on PATH)",
        "platform     linux_x86_64, Python 3.11.7",
        "jobs         16 (16 cores; each compiler waits until its part of 57.6 GiB of memory is free); usually 16 C++, "
        "16 CUDA, 5 flash attention at a time",
        "needs        scikit-build-core>=1.0",
        f"builds in    {root} (a copy of the tree)",
        "",
        "CMake options",
        "  CMAKE_BUILD_TYPE = Release",
        "  CMAKE_CUDA_COMPILER = /opt/cuda-13.0/bin/nvcc",
        "  CUDAToolkit_ROOT = /opt/cuda-13.0",
        "  CUDA_TOOLKIT_ROOT_DIR = /opt/cuda-13.0",
        "  FLASH_ATTENTION_MAX_JOBS = 5",
        "  Python_EXECUTABLE = /usr/bin/python3",
        "  TORCH_CUDA_ARCH_LIST = 9.0",
        "  USE_CUDA = ON",
        "  USE_NCCL = OFF",
    ]


def test_explain_names_the_layer_of_every_value(plan: Planner) -> None:
    made = plan(
        {"target": "cpu", "enable": "kineto"},
        pyproject='[tool.torchwheel]\npackage-version = "2.14.1"\ndisable = ["kineto"]\nenv.CFLAGS = "-O1"\n',
        environment={"CFLAGS": "-O2", "MAX_JOBS": "3"},
    )
    lines = render_plan(made, made.findings, explain=True).splitlines()
    cpu = "    [built-in overlay: overlays/cpu.toml]"
    jobs = "    [environment: variable MAX_JOBS]"
    assert lines[lines.index("CMake options") : lines.index("findings")] == [
        "CMake options",
        "  CMAKE_BUILD_TYPE = Release    [built-in default]",
        "  Python_EXECUTABLE = /usr/bin/python3    [built-in default: the interpreter of the build]",
        "  USE_CUDA = OFF    [-C: target cpu (-C target)]",
        f"  USE_CUDNN = OFF{cpu}",
        "  USE_KINETO = ON    [-C enable, instead of 'false' (pyproject.toml [tool.torchwheel])]",
        f"  USE_MPS = OFF{cpu}",
        f"  USE_ROCM = OFF{cpu}",
        f"  USE_XPU = OFF{cpu}",
        "",
        "environment",
        "  CFLAGS = -O2    [environment: variable CFLAGS, instead of '-O1' (pyproject.toml [tool.torchwheel])]",
        f"  CMAKE_BUILD_PARALLEL_LEVEL = 3{jobs}",
        "  CMAKE_BUILD_TYPE = Release    [built-in default]",
        f"  MAX_JOBS = 3{jobs}",
        "  PYTORCH_BUILD_NUMBER = 1    [built-in default: a higher one would become part of the local label]",
        "  PYTORCH_BUILD_VERSION = 2.14.1+cpu    [project: pyproject.toml [tool.torchwheel]]",
        "  USE_CUDA = 0    [-C: target cpu (-C target)]",
        f"  USE_CUDNN = 0{cpu}",
        "  USE_KINETO = 1    [-C enable, instead of 'false' (pyproject.toml [tool.torchwheel])]",
        f"  USE_MPS = 0{cpu}",
        f"  USE_ROCM = 0{cpu}",
        f"  USE_XPU = 0{cpu}",
        "",
        "settings",
        "  build-env = auto    [built-in default]",
        "  build-type = Release    [built-in default]",
        "  compiler-cache = auto    [built-in default]",
        "  cuda-from = auto    [built-in default]",
        "  define.USE_CUDA = false    [-C: target cpu (-C target)]",
        f"  define.USE_CUDNN = false{cpu}",
        "  define.USE_KINETO = true    [-C enable, instead of 'false' (pyproject.toml [tool.torchwheel])]",
        f"  define.USE_MPS = false{cpu}",
        f"  define.USE_ROCM = false{cpu}",
        f"  define.USE_XPU = false{cpu}",
        "  env.CFLAGS = -O2    [environment: variable CFLAGS, instead of '-O1' (pyproject.toml [tool.torchwheel])]",
        f"  jobs = 3{jobs}",
        "  package-version = 2.14.1    [project: pyproject.toml [tool.torchwheel]]",
        "  target = cpu    [-C target]",
        "  traceback = false    [built-in default]",
        "",
    ]


def test_findings_close_the_page(plan: Planner) -> None:
    made = plan({"package-version": "2.14.1"})
    page = render_plan(made, made.findings, 1000)
    (finding,) = plan({"package-version": "2.14.1"}).findings
    assert page.splitlines()[-len(finding.render().splitlines()) - 1 :] == [
        "findings",
        *(f"  {line}" for line in finding.render().splitlines()),
    ]


def test_a_bare_plan_says_none(plan: Planner) -> None:
    made = here(plan({"package-version": "2.14.1"}, in_place=True))
    lines = render_plan(made, made.findings).splitlines()
    assert {line for line in lines if line.endswith("none")} == {
        "target       none",
        "device code  none",
        "CUDA         none",
    }
    assert any(line.endswith("(the tree itself)") for line in lines)


def test_prose_is_wrapped_and_what_is_copied_is_not(plan: Planner) -> None:
    made = plan({"define.CMAKE_CXX_FLAGS": "-O2 " * 40})
    page = render_plan(made, made.findings, 60).splitlines()
    assert "  CMAKE_CXX_FLAGS = " + "-O2 " * 40 in page
    prose = page[: page.index("CMake options")] + page[page.index("findings") :]
    assert max(len(line) for line in prose if "/" not in line) <= 60
    coloured = render_plan(made, made.findings, 60, colour=True)
    assert "\x1b[1;31merror: \x1b[0m" in coloured
