"""Plan, doctor and build hold a request against the same rules: what one of them calls an error, all do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from places import HOSTS, MINITORCH
from put import put
from refusals import error_of
from toolkit.trees import linux_installation
from torchwheel.engine.build import preflight_request
from torchwheel.plan.make import make_plan
from torchwheel.preflight.doctor import described_inputs, examine_request
from torchwheel.preflight.host_file import read_host_file
from torchwheel.preflight.registry import read_rules
from torchwheel.preflight.report import run_preflight
from torchwheel.reporting.errors import Severity
from torchwheel.survey import BuildRequest, survey

posix = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")

Machine = tuple[Mapping[str, str], Mapping[str, str]]
"""Settings and environment variables."""


def program(path: Path, script: str) -> str:
    return str(put(path, f"#!/bin/sh\n{script}\n", 0o755))


def compilers(tmp_path: Path, script: str = "echo 12.2.0", **variables: str) -> dict[str, str]:
    """A PATH with nothing but a C and a C++ compiler on it."""
    for name in ("gcc", "g++"):
        program(tmp_path / "bin" / name, script)
    return {
        "PATH": str(tmp_path / "bin"),
        "TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"),
        **variables,
    }


def nvcc(tmp_path: Path, script: str) -> Machine:
    root = linux_installation(tmp_path / "cuda-13.0", "13.0", "13.0.48")
    program(root / "bin" / "nvcc", script)
    return {"target": "rtx5070", "cuda-path": str(root)}, compilers(tmp_path)


def named_by_cuda_home(tmp_path: Path, **variables: str) -> Machine:
    settings, environment = nvcc(tmp_path, "echo release 13.0, V13.0.48")
    return {"target": "rtx5070"}, {**environment, "CUDA_HOME": settings["cuda-path"], **variables}


def cache_is_a_file(tmp_path: Path) -> Machine:
    (tmp_path / "cache").write_text("")
    return {}, compilers(tmp_path)


# Each broken machine with the id of its error.
BROKEN: dict[str, tuple[Callable[[Path], Machine], str]] = {
    "no compilers": (lambda path: ({}, compilers(path, PATH=str(path))), "no-host-compiler"),
    "CXX": (lambda path: ({}, compilers(path, CXX="/nowhere/g++")), "no-host-compiler"),
    "CC": (lambda path: ({}, compilers(path, CC="/nowhere/gcc")), "no-host-compiler"),
    "launcher": (lambda path: ({}, compilers(path, CXX="ccache g++")), "no-host-compiler"),
    "env.CXX": (lambda path: ({"env.CXX": "/nowhere/g++"}, compilers(path)), "no-host-compiler"),
    "nonsense": (lambda path: ({}, compilers(path, "echo '@#$ %'")), "host-compiler-does-not-work"),
    "fails": (
        lambda path: ({}, compilers(path, "echo no licence >&2; exit 3")),
        "host-compiler-does-not-work",
    ),
    "CC is false": (
        lambda path: ({}, compilers(path, CC=program(path / "false", "exit 1"))),
        "host-compiler-does-not-work",
    ),
    "nvcc talks nonsense": (lambda path: nvcc(path, "echo '@#$ %'"), "nvcc-does-not-work"),
    "nvcc fails": (lambda path: nvcc(path, "exit 3"), "nvcc-does-not-work"),
    "CUDACXX": (lambda path: named_by_cuda_home(path, CUDACXX="/nowhere/nvcc"), "nvcc-does-not-work"),
    "CUDAHOSTCXX": (
        lambda path: named_by_cuda_home(path, CUDAHOSTCXX="/nowhere/g++ -m64"),
        "host-compiler-does-not-work",
    ),
    "cache is a file": (cache_is_a_file, "build-folder-not-writable"),
    "no packages": (lambda path: ({"build-env": "current"}, compilers(path)), "build-packages-missing"),
}


@posix
@pytest.mark.parametrize(("machine", "id"), BROKEN.values(), ids=BROKEN)
def test_plan_doctor_and_build_agree(
    machine: Callable[[Path], Machine], id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is installed beside the tests is no matter.
    monkeypatch.setattr("torchwheel.preflight.this_machine.installed_versions", dict)
    settings, environment = machine(tmp_path)
    request = BuildRequest(MINITORCH, {"target": "cpu", **settings}, environment)
    planned = run_preflight(make_plan(survey(request)), environment)
    errors = [finding for finding in planned.findings if finding.severity is Severity.ERROR]
    assert [finding.id for finding in errors].count(id) == 1
    assert list(examine_request(request).report.errors) == errors
    assert list(error_of(preflight_request, request).problems) == [finding.problem for finding in errors]


def test_a_build_is_checked_for_everything_that_doctor_calls_an_error() -> None:
    assert [rule.id for rule in read_rules().values() if rule.severity is Severity.ERROR and rule.gpu] == []


@posix
def test_what_a_machine_did_not_tell_is_said(tmp_path: Path) -> None:
    environment = compilers(tmp_path)
    program(tmp_path / "bin" / "cmake", "exit 4")
    request = BuildRequest(MINITORCH, {"target": "cpu"}, environment)
    planned = run_preflight(make_plan(survey(request)), environment)
    (told,) = (finding.problem for finding in planned.findings if finding.id == "machine-did-not-answer")
    assert f"{tmp_path}/bin/cmake" in told.why


def test_the_gpu_that_is_here_is_no_matter_of_the_wheel() -> None:
    """A wheel records what the checks found: the same on a machine with another GPU or driver."""
    facts = read_host_file(HOSTS / "dgx-spark.toml")
    request = BuildRequest(MINITORCH, {"target": "a100"}, {})
    plan = make_plan(described_inputs(request, facts))
    report = run_preflight(plan, {}, facts)
    about = {"need-not-build", "architecture-does-not-run-here"}
    assert about <= {finding.id for finding in report.findings}
    assert about.isdisjoint({finding.id for finding in report.recorded})
