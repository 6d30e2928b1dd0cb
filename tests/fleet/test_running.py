"""The commands of the jobs, run: the script for a shell, and the steps of the GitHub workflow as its runner would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.builds import REPOSITORY, check, clean_environment
from fleet.test_jobs import fleet, request
from torchwheel.fleet.formats import files
from torchwheel.fleet.services import services

# Jobs install torchwheel, and pip into an environment of their own.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(sys.platform != "linux", reason="bash"),
]

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
CP = f"cp{PYTHON.replace('.', '')}"
JOB = f"cpu-{CP}-linux-x86-64"
# OpenMP and MPI are not the tree's default, and so are named.
WHEEL = f"torch-2.14.1+cpu.nompi.noopenmp-{CP}-{CP}-linux_x86_64.whl"


@pytest.fixture(scope="module")
def own_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """torchwheel's own wheel, in a folder with a space."""
    folder = tmp_path_factory.mktemp("own") / "a wheel"
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, REPOSITORY]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.iterdir()
    return wheel


def made(checkout: Path, format: str, own_wheel: Path) -> str:
    """The one file for a job without CUDA."""
    asked: dict[str, Any] = {
        "service": services()[format],
        "pythons": (PYTHON,),
        "settings": {"disable": ["tests", "openmp", "mpi"], "version": "2.14.1"},
        "torchwheel": str(own_wheel),
    }
    found = fleet(checkout, **asked)
    assert [(job.name, job.wheel) for job in found.jobs] == [(JOB, WHEEL)]
    (text,) = files(found, request(checkout, **asked), "").values()
    return text


def test_the_script_builds_once_and_then_takes_its_wheel(
    checkout: Path, tmp_path: Path, own_wheel: Path
) -> None:
    script = tmp_path / "torchwheel.sh"
    script.write_text(made(checkout, "shell", own_wheel), encoding="utf-8")
    environment = clean_environment(tmp_path / "cache")
    assert check("bash", script, "--list", cwd=checkout, env=environment) == f"{JOB}\n"
    kept = checkout / ".torchwheel" / JOB / "keep" / "wheels" / WHEEL
    said = check("bash", script, cwd=checkout, env=environment, timeout=500)
    assert "files were compiled" in said and "nothing is built" not in said
    built = checkout / ".torchwheel" / JOB / "dist" / WHEEL
    assert kept.read_bytes() == built.read_bytes()
    # Of a wheel that an earlier commit left, nothing will be asked again.
    (kept.parent / "old.whl").touch()
    again = check("bash", script, JOB, cwd=checkout, env=environment, timeout=500)
    assert f"torchwheel: nothing is built: {kept} was built for this plan, from this commit" in again
    assert [path.name for path in kept.parent.iterdir()] == [WHEEL]
    # What a job leaves is no source and no change.
    status = ["git", "-C", checkout, "status", "--porcelain"]
    assert subprocess.run(status, capture_output=True, check=True).stdout == b""


def test_a_job_that_fails_stops_no_other(checkout: Path, tmp_path: Path, own_wheel: Path) -> None:
    text = made(checkout, "shell", own_wheel).replace("cpu", "h100", 1)
    failing = text.replace(f"all=({JOB.replace('cpu', 'h100')})", f"all=(none {JOB})")
    (tmp_path / "x.sh").write_text(failing.replace("\ntools() (", "\ntools() (\necho REACHED; exit 3"))
    environment = clean_environment(tmp_path / "cache")
    done = subprocess.run(["bash", tmp_path / "x.sh"], cwd=checkout, env=environment, capture_output=True)
    assert done.returncode == 1
    assert done.stdout.decode().splitlines() == ["=== none", f"=== {JOB}", "REACHED"]
    assert done.stderr.decode().splitlines()[-1] == f"failed: none {JOB}"


def test_a_build_that_takes_too_long_says_that_it_goes_on(
    checkout: Path, tmp_path: Path, own_wheel: Path
) -> None:
    job = yaml.safe_load(made(checkout, "gitlab", own_wheel))[".torchwheel"]
    build = job["script"][3].replace('torchwheel build "$JOB_PROJECT" -o "$JOB_DIR/dist"', "sleep 60")
    assert "sleep 60" in build
    (tmp_path / "activate").touch()
    environment = {**clean_environment(tmp_path), "JOB_DIR": str(tmp_path), "JOB_MINUTES": "0.01"}
    done = subprocess.run(["bash", "-ec", build], cwd=checkout, env=environment, capture_output=True)
    assert done.returncode == 124
    assert "What it compiled is kept: run the job again" in done.stdout.decode()


def test_the_steps_of_the_workflow_build_the_wheel(checkout: Path, tmp_path: Path, own_wheel: Path) -> None:
    job = yaml.safe_load(made(checkout, "github", own_wheel))["jobs"]["linux"]
    (matrix,) = job["strategy"]["matrix"]["include"]
    environment = clean_environment(tmp_path / "cache")
    for name, value in job["env"].items():
        reference = f"${{{{ matrix.variables.{name} }}}}"
        environment[name] = matrix["variables"][name] if value == reference else value
    assert not [value for value in environment.values() if "${{" in value]
    names = [step["name"] for step in job["steps"] if "run" in step]
    assert names == ["Compilers and git", "Python and torchwheel", "Plan", "Build", "Inspect"]
    said = {}
    for step in (step for step in job["steps"] if "run" in step):
        # The image's own step changes a system, which is this machine's here.
        if step["name"] != names[0]:
            (tmp_path / "step.sh").write_text(step["run"], encoding="utf-8")
            # As its runner starts it: https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
            command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", tmp_path / "step.sh")
            said[step["name"]] = check(*command, cwd=checkout, env=environment, timeout=500)
    assert f"wheel        {WHEEL}" in said["Plan"]
    assert "built for  cpu" in said["Inspect"]
    upload = job["steps"][-1]["with"]
    assert [path.name for path in checkout.glob(upload["path"])] == [WHEEL]
