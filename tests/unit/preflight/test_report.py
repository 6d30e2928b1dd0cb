"""What a report is made of: the plan's own findings, the order of fixing, the exit status, the quick subset."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import pytest

from places import MINITORCH
from preflight.contexts import CL, context, toolkit, tree
from torchwheel.host.machine import Compiler
from torchwheel.plan.make import make_plan
from torchwheel.preflight.checks.published import describe_evidence
from torchwheel.preflight.doctor import Examination, render_report, source_of
from torchwheel.preflight.facts import NOT_INSTALLED, HostFacts
from torchwheel.preflight.registry import OFFICIAL_INDEX, Violation, read_rules
from torchwheel.preflight.report import CHECKS, Report, check_plan, run_preflight
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.reporting.errors import Finding, Problem, Severity, error
from torchwheel.survey import BuildRequest, survey

MAC = {"platform": "macosx_13_0_x86_64", "config": {"target": "cpu"}, "glibc": None}


def report_on(*config: dict[str, str], **changes: Any) -> Report:
    """What is found of a context."""
    made = context(*config, **changes)
    return check_plan(made.plan, made.host, made.tree)


def test_what_the_plan_finds_is_shown_once_with_the_rules_source() -> None:
    made = context()
    finding = Finding(Severity.ERROR, Problem("no-target", "the plan's words", "the plan's remedy"))
    report = check_plan(replace(made.plan, findings=(finding,)), made.host, made.tree)
    assert [one for one in report.findings if one.id == finding.id] == [finding]
    assert source_of(finding) == read_rules()[finding.id].source
    assert finding.id not in report.passed


def test_an_unknown_finding_of_the_plan_is_shown_too() -> None:
    made = context()
    finding = Finding(Severity.WARNING, Problem("brand-new", "what", "remedy"))
    report = check_plan(replace(made.plan, findings=(finding,)), made.host, made.tree)
    assert finding in report.findings


def test_order_of_fixing() -> None:
    report = report_on(
        {"jobs": "64", "target": "rtx5070"},
        source=tree(missing_submodules=("third_party/fmt",)),
        toolkits=(toolkit(missing=("cublas",)),),
        compiler=None,
        facts={"python_headers": False, "libraries": {"cudnn": NOT_INSTALLED}, "driver": "470.256.02"},
    )
    assert [(finding.severity.value, finding.id) for finding in report.findings] == [
        ("error", "missing-submodules"),
        ("error", "toolkit-incomplete"),
        ("error", "no-host-compiler"),
        ("error", "no-python-headers"),
        ("note", "newer-driver-instead"),
        ("warning", "no-cudnn"),
        ("warning", "too-many-jobs-for-memory"),
        ("warning", "driver-too-old"),
    ]


def test_that_building_is_needless_comes_after_errors() -> None:
    report = report_on(facts={"python_headers": False})
    assert [finding.id for finding in report.findings] == ["no-python-headers", "need-not-build"]


def test_an_official_build_that_the_driver_cannot_run_is_not_offered() -> None:
    report = report_on(facts={"driver": "470.256.02"})
    assert [finding.id for finding in report.findings] == ["newer-driver-instead", "driver-too-old"]
    assert "need-not-build" not in report.passed


@pytest.mark.parametrize(
    ("release", "target", "platform", "cuda", "glibc", "told"),
    [
        # A toolkit that glibc refuses is not a matter of what is published besides.
        ("2.14.1", "rtx5070", "linux_x86_64", "12.8", "2.42", ["glibc-too-new-for-cuda"]),
        # 12.9's nvcc crashes on Windows: "use 12.8 or 13.0" is the one advice.
        ("2.14.1", "rtx5070", "win_amd64", "12.9", "2.36", ["nvcc-bug"]),
        ("2.4.1", "t4", "win_amd64", "12.9", "2.36", ["nvcc-bug"]),
        # All that 2.15 is published with leave the V100 out, so none of them is to be preferred.
        ("2.15.0", "v100", "linux_x86_64", "12.6", "2.36", ["last-official-build"]),
    ],
)
def test_one_line_does_not_name_another_toolkit_than_the_next(
    release: str, target: str, platform: str, cuda: str, glibc: str, told: list[str]
) -> None:
    found = (toolkit(cuda, platform),)
    report = report_on(
        {"target": target}, platform=platform, source=tree(release), toolkits=found, glibc=glibc
    )
    advice = [one.id for one in report.findings if re.search(r"(use|prefer) CUDA [0-9]", one.problem.remedy)]
    assert advice == told


@pytest.mark.parametrize(
    ("target", "driver", "remedy"),
    [
        ("a100", "550.54", "update the driver to 580 or later, or use CUDA 12.9, or on"),
        # What is older does not compile for it, or the driver is too old for all that PyTorch takes.
        ("jetson-t5000", "550.54", "update the driver to 580 or later, or on"),
        ("a100", "450.80", "update the driver to 580 or later, or on"),
    ],
)
def test_an_older_cuda_is_named_only_where_it_fits(target: str, driver: str, remedy: str) -> None:
    found = {"source": tree("2.14.1"), "toolkits": (toolkit("13.0"),), "facts": {"driver": driver}}
    findings = report_on({"target": target}, **found).findings
    (finding,) = (one for one in findings if one.id == "driver-too-old")
    assert finding.problem.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("release", "cuda", "glibc", "program", "newer"),
    [
        ("2.14.1", "12.8", "2.36", "g++-14", ", or use CUDA 13.0 to 13.2"),
        # glibc 2.42 refuses the headers of 13.0, and 2.9 is not known to take a later one.
        ("2.9.1", "12.4", "2.42", "g++-13", ""),
        # The newest that 2.4 takes is 12.4, which refuses GCC 15 as well.
        ("2.4.1", "12.1", "2.36", "g++-12", ""),
    ],
)
def test_a_newer_cuda_is_offered_only_where_pytorch_takes_it(
    release: str, cuda: str, glibc: str, program: str, newer: str
) -> None:
    gcc = Compiler("cxx", "gcc", "/usr/bin/g++", "15.1.0", "g++")
    found = {"source": tree(release), "toolkits": (toolkit(cuda),), "compiler": gcc, "glibc": glibc}
    answer = CHECKS["host-compiler-refused-by-cuda"](context({"target": "t4"}, **found))
    assert isinstance(answer, Violation)
    assert answer.nearest == f"install {program} and say -C env.CUDAHOSTCXX={program}{newer}"


def test_skipped_errors_do_not_count() -> None:
    report = report_on({"skip-check": "no-python-headers"}, facts={"python_headers": False})
    assert "no-python-headers" in {finding.id for finding in report.findings}
    assert report.errors == ()
    assert Examination(report).document()["skipped"] == ["no-python-headers"]
    lines = render_report(Examination(report), 200).splitlines()
    (said,) = (line for line in lines if line.endswith("[no-python-headers]"))
    assert said.startswith("error (skipped by skip-check): ")
    assert lines[-1].startswith("no other error was found: 1 note, 1 error skipped, ")


def test_an_error_that_there_is_not_is_not_skipped() -> None:
    report = report_on({"skip-check": "no-python-headers"})
    assert Examination(report).document()["skipped"] == []
    assert render_report(Examination(report), 200).splitlines()[-1].startswith("no error was found: ")


def test_what_nobody_knows_is_not_fine() -> None:
    made = context(source=tree("2.99.0"))
    known = made.host
    report = check_plan(made.plan, HostFacts(known.host, compilers_known=False), TreeFacts())
    assert report.unchecked["this release of PyTorch"][0] == "need-not-build"
    by_rule = {rule: missing for missing, found in report.unchecked.items() for rule in found}
    assert by_rule["toolkit-incomplete"] == "the files of the CUDA toolkit"
    assert by_rule["no-python-headers"] == "Python's headers"
    assert by_rule["disk-too-small"] == "the free disk"
    assert by_rule["driver-too-old"] == "the driver"
    assert by_rule["architecture-does-not-run-here"] == "the GPUs"
    assert by_rule["no-cudnn"] == "cuDNN"
    assert not by_rule.keys() & report.passed
    text = render_report(Examination(report), 200)
    assert f"{len(by_rule)} checks could not be made" in text.splitlines()[-1]
    assert "not known: Python's headers; so these rules were not checked: no-python-headers" in text


def test_where_everything_is_known_every_rule_is_judged() -> None:
    report = report_on({"enable": "system-nccl"})
    assert report.unchecked == {}
    assert "could not be made" not in render_report(Examination(report))


@pytest.mark.parametrize(
    ("version", "cuda", "changes", "values"),
    [
        ("2.9.1", "12.8", {}, "PyTorch 2.9.1 is published for linux_x86_64 with CUDA 12.8"),
        ("2.9.1", "12.8", {"config": {"target": "a100,gtx1080ti"}}, "is published … CUDA 12.8 … 6.1"),
        ("2.9.1", "12.8", {"platform": "musllinux_1_2_x86_64", "glibc": None}, "untried … glibc … musl"),
        ("2.2.2", "12.8", MAC, "PyTorch 2.2.2 is published for macosx_13_0_x86_64 with no CUDA"),
        ("2.4.0", "12.8", MAC, "untried … 2.4.0 is not published for macosx_13_0_x86_64 … 2.2.2"),
        ("2.9.1", "12.5", {}, "untried … CUDA 12.5 … CUDA 12.8, CUDA 13.0, CUDA 12.9, CUDA 12.6, no CUDA"),
        ("2.15.0", "13.0", {}, "untried … with CUDA 13.2, no CUDA … is not known here"),
    ],
)
def test_what_the_combination_rests_on(version: str, cuda: str, changes: dict[str, Any], values: str) -> None:
    asked = {"config": {"target": "a100"}, **changes}
    evidence = describe_evidence(context(source=tree(version), toolkits=(toolkit(cuda),), **asked).plan)
    first, *others = values.split(" … ")
    assert evidence.startswith("untried") is (first == "untried")
    assert all(value in evidence for value in (first, *others))


@pytest.mark.parametrize(
    ("version", "said"),
    [
        # The tree goes around it.
        ("2.14.1", "the wheel goes without torch.segment_reduce"),
        # An untried CUDA is better than none.
        ("2.6.0", "use CUDA 12.8"),
    ],
)
def test_a_bug_of_nvcc(version: str, said: str) -> None:
    found = (toolkit("12.9", "win_amd64"),)
    findings = report_on(platform="win_amd64", source=tree(version), toolkits=found).findings
    (told,) = (finding.problem for finding in findings if finding.id == "nvcc-bug")
    assert said in told.render()


def test_that_no_official_build_serves_is_not_said_of_a_release_whose_index_nobody_has_seen() -> None:
    report = report_on(
        platform="win_amd64", compiler=CL, source=tree("2.15.0"), toolkits=(toolkit("13.0", "win_amd64"),)
    )
    assert "need-not-build" not in {*report.passed, *(finding.id for finding in report.findings)}
    assert report.unchecked[OFFICIAL_INDEX.missing] == ("need-not-build",)
    seen = report_on({"target": "v100"}, source=tree("2.14.1"), python="3.12", toolkits=(toolkit("12.9"),))
    assert "need-not-build" not in seen.unchecked


def test_a_request_without_a_plan() -> None:
    problems = [
        Problem("source-missing", "no folder", "make one"),
        Problem("component-needs", "gloo is on", "disable it"),
    ]
    report = Examination.of(map(error, problems)).report
    assert [finding.id for finding in report.errors] == ["component-needs", "source-missing"]
    assert [bool(source_of(finding)) for finding in report.findings] == [True, False]


def test_a_wheel_records_only_what_needs_no_gpu() -> None:
    environment = {"PATH": os.environ["PATH"], "NVCC_APPEND_FLAGS": "-arch=sm_80"}
    request = BuildRequest(MINITORCH, {"arch": "9.0", "target": "h100"}, environment)
    plan = make_plan(survey(request))
    known = {finding.id for finding in plan.findings}
    found = run_preflight(plan, environment).recorded
    assert {*plan.findings} <= {*found}
    assert "variables-add-architectures" in {finding.id for finding in found}
    assert not any(read_rules()[finding.id].gpu for finding in found if finding.id not in known)
    assert len({finding.id for finding in found}) == len(found)


def test_for_another_platform_what_is_about_its_machine_is_unchecked() -> None:
    request = BuildRequest(MINITORCH, {"target": "gb10", "define.BLAS": "MKL"}, {}, platform="linux_aarch64")
    preflight = run_preflight(make_plan(survey(request)), {})
    assert [finding.id for finding in preflight.findings] == [
        "option-not-on-machine",
        "prerelease-version",
        "toolkit-assumed",
    ]
    by_rule = {rule: missing for missing, found in preflight.unchecked.items() for rule in found}
    assert (by_rule["no-python-headers"], by_rule["host-compiler-too-old"]) == (
        "Python's headers",
        "the version of the C++ compiler",
    )
    # These need nothing of the machine.
    assert not {"python-not-supported", "option-not-on-machine", "toolkit-not-for-platform"} & by_rule.keys()
