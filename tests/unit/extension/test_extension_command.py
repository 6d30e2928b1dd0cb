"""``torchwheel plan`` of extensions."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from extension.planning import CUDA_13, plan, stepped
from shipped_data import document_schema
from torchwheel.cli.extension import plan_content, render_extension_plan
from torchwheel.extension.extension_plan import Extension, ExtensionPlan
from torchwheel.reporting.terminal import print_document


def valid(text: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(text)
    jsonschema.validate(document, document_schema("extension-plan"), cls=jsonschema.Draft202012Validator)
    return document


@pytest.fixture
def planned(tmp_path: Path) -> ExtensionPlan:
    extension = Extension(name="x._C", sources=("a.cpp", "k.cu"))
    return stepped(plan(tmp_path, extension, config={"arch": "9.0;12.0", "jobs": "3"}))


def test_the_page_of_a_plan(planned: ExtensionPlan) -> None:
    page = render_extension_plan(planned, 100)
    head, steps = page.split("\n\n")
    assert head.splitlines()[:4] == [
        "project         /home/me/my project",
        "target          none named",
        "device code     9.0;12.0",
        "PyTorch         2.14.1+cu130 in /env/lib/python3.11/site-packages/torch",
    ]
    # A path with a space is not broken there, however narrow the terminal is.
    narrow = render_extension_plan(planned, 20).split("\n\n")[0].splitlines()
    assert narrow[:4] == head.splitlines()[:4]
    lines = steps.splitlines()
    assert lines[0] == "x._C -> x/_C.cpython-311-x86_64-linux-gnu.so"
    assert lines[1::2] == [
        "  # compile a.cpp",
        "  # compile k.cu for sm90, sm120",
        "  # link _C.cpython-311-x86_64-linux-gnu.so",
    ]
    assert lines[2] == "  cc -c source/a.cpp"


def test_the_document_of_a_plan(planned: ExtensionPlan, capsys: pytest.CaptureFixture[str]) -> None:
    print_document("plan", **plan_content(planned))
    document = valid(capsys.readouterr().out)
    assert document["architectures"] == "9.0;12.0"
    assert document["links"] == {name: str(folder) for name, folder in planned.layout.links.items()}
    (one,) = document["extensions"]  # type: ignore[misc, attr-defined]
    assert [step["kind"] for step in one["steps"]] == ["cxx", "cuda", "link"]
    assert one["steps"][1]["architectures"] == "9.0;12.0"


def test_a_plan_with_errors_says_them(tmp_path: Path) -> None:
    wrong = plan(tmp_path, Extension(name="x._C", sources=("a.cpp",), stable_abi="2.99"))
    assert "[stable-abi-too-new]" in render_extension_plan(wrong, 100)
    assert plan_content(wrong)["findings"][0]["id"] == "stable-abi-too-new"
    assert plan_content(wrong)["skipped"] == []


def test_an_error_that_the_user_lets_pass_says_so(tmp_path: Path) -> None:
    config = {"target": "rtx5070", "skip-check": "nvcc-does-not-work"}
    kernel = Extension(name="x._C", sources=("k.cu",))
    made = plan(tmp_path, kernel, config=config, unanswered={CUDA_13.nvcc: "it ended with status 3"})
    page = render_extension_plan(made, 100)
    assert "\n\nerror (skipped by skip-check): " in page
    assert plan_content(made)["skipped"] == ["nvcc-does-not-work"]
