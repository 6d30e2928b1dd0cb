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


def compilers(tmp_path: Path, script: str = "echo 12.2.0") -> dict[str, str]:
    """A PATH with nothing but a C and a C++ compiler on it."""
    for name in ("gcc", "g++"):
        program(tmp_path / "bin" / name, script)
    return {"PATH": str(tmp_path / "bin"), "TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}


def without_compilers(tmp_path: Path) -> Machine:
    return {}, {**compilers(tmp_path), "PATH": str(tmp_path)}


def named_compiler_absent(tmp_path: Path) -> Machine:
    return {}, {**compilers(tmp_path), "CXX": "/nowhere/g++"}


def named_c_compiler_absent(tmp_path: Path) -> Machine:
    return {}, {**compilers(tmp_path), "CC": "/nowhere/gcc"}


def launcher_absent(tmp_path: Path) -> Machine:
    return {}, {**compilers(tmp_path), "CXX": "ccache g++"}


def named_by_a_setting(tmp_path: Path) -> Machine:
    return {"env.CXX": "/nowhere/g++"}, compilers(tmp_path)


def compiler_talks_nonsense(tmp_path: Path) -> Machine:
    return {}, compilers(tmp_path, "echo '@#$ %'")


def compiler_fails(tmp_path: Path) -> Machine:
    return {}, compilers(tmp_path, "echo no licence >&2; exit 3")


def compiler_is_false(tmp_path: Path) -> Machine:
    return {}, {**compilers(tmp_path), "CC": program(tmp_path / "false", "exit 1")}


def nvcc_talks_nonsense(tmp_path: Path) -> Machine:
    root = linux_installation(tmp_path / "cuda-13.0", "13.0", "13.0.48")
    program(root / "bin" / "nvcc", "echo '@#$ %'")
    return {"target": "rtx5070", "cuda-path": str(root)}, compilers(tmp_path)


def nvcc_fails(tmp_path: Path) -> Machine:
    settings, environment = nvcc_talks_nonsense(tmp_path)
    program(tmp_path / "cuda-13.0" / "bin" / "nvcc", "exit 3")
    return settings, environment


def nvcc_of_a_variable_absent(tmp_path: Path) -> Machine:
    settings, environment = nvcc_talks_nonsense(tmp_path)
    program(tmp_path / "cuda-13.0" / "bin" / "nvcc", "echo release 13.0, V13.0.48")
    return {"target": "rtx5070"}, {
        **environment,
        "CUDA_HOME": settings["cuda-path"],
        "CUDACXX": "/nowhere/nvcc",
    }


def host_compiler_of_nvcc_absent(tmp_path: Path) -> Machine:
    settings, environment = nvcc_of_a_variable_absent(tmp_path)
    return settings, {**environment, "CUDACXX": "", "CUDAHOSTCXX": "/nowhere/g++ -m64"}


def cache_is_a_file(tmp_path: Path) -> Machine:
    (tmp_path / "cache").write_text("")
    return {}, compilers(tmp_path)


def packages_absent(tmp_path: Path) -> Machine:
    return {"build-env": "current"}, compilers(tmp_path)


# Each broken machine with the id of its error.
BROKEN = {
    without_compilers: "no-host-compiler",
    named_compiler_absent: "no-host-compiler",
    named_c_compiler_absent: "no-host-compiler",
    launcher_absent: "no-host-compiler",
    named_by_a_setting: "no-host-compiler",
    compiler_talks_nonsense: "host-compiler-does-not-work",
    compiler_fails: "host-compiler-does-not-work",
    compiler_is_false: "host-compiler-does-not-work",
    nvcc_talks_nonsense: "nvcc-does-not-work",
    nvcc_fails: "nvcc-does-not-work",
    nvcc_of_a_variable_absent: "nvcc-does-not-work",
    host_compiler_of_nvcc_absent: "host-compiler-does-not-work",
    cache_is_a_file: "build-folder-not-writable",
    packages_absent: "build-packages-missing",
}


@posix
@pytest.mark.parametrize(("machine", "id"), BROKEN.items(), ids=lambda one: getattr(one, "__name__", one))
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
