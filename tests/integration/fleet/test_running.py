"""The commands of examples/ci, run: the loop of a shell, and the steps of the GitHub workflow as its runner would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from answered import answered
from backend.builds import check, clean_environment
from fleet.sites import SiteRecipe
from integration.fleet.test_variants import forced, installed, reads_variants
from places import REPOSITORY
from tree.small_trees import commit_all

# Jobs install torchwheel, and pip into an environment of their own.
pytestmark = [pytest.mark.network, pytest.mark.skipif(sys.platform != "linux", reason="bash")]

CI = REPOSITORY / "examples" / "ci"
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


@pytest.fixture
def project(checkout: Path, own_wheel: Path) -> Path:
    """A checkout with examples/ci in its folder ci, and the jobs' settings."""
    shutil.copytree(CI, checkout / "ci")
    with (checkout / "pyproject.toml").open("a") as stream:
        stream.write(
            '\n[tool.torchwheel]\ndisable = ["tests", "openmp", "mpi"]\npackage-version = "2.14.1"\n'
        )
    commit_all(checkout)
    return checkout


def jobs_environment(cache: Path, own_wheel: Path) -> dict[str, str]:
    found = clean_environment(cache)
    # Where there is no network but a registry, uv takes the Python of the tests.
    folders = (Path(sys.executable).parent, Path(sys.base_prefix, "bin"))
    path = os.pathsep.join([*map(str, folders), found["PATH"]])
    return {**found, "PATH": path, "JOB_TORCHWHEEL": str(own_wheel)}


@pytest.mark.long
def test_the_shell_loop_builds_and_compiles_nothing_again(
    project: Path, tmp_path: Path, own_wheel: Path
) -> None:
    environment = {**jobs_environment(tmp_path / "cache", own_wheel), "SITE": str(tmp_path / "site")}
    command = ("bash", "ci/build_all.sh", ".", "-w", "cpu", "--python", PYTHON)
    said = check(*command, cwd=project, env=environment, timeout=500)
    assert "files were compiled" in said and " 0 files were compiled" not in said
    folder = project / ".torchwheel" / JOB / "dist"
    again = check(*command, cwd=project, env=environment, timeout=500)
    assert " 0 files were compiled" in again
    assert [path.name for path in folder.glob("*.whl")] == [WHEEL]
    label = WHEEL.split("-")[1].partition("+")[2]
    assert (tmp_path / "site" / label / "simple/torch" / WHEEL).is_file()
    # What a job leaves is no source and no change.
    status = ["git", "-C", project, "status", "--porcelain"]
    assert subprocess.run(status, capture_output=True, check=True).stdout == b""


def test_a_job_that_fails_stops_no_other(project: Path, tmp_path: Path, own_wheel: Path) -> None:
    (project / "ci" / "job.sh").write_text("echo REACHED; exit 3\n")
    done = answered(
        ["bash", "ci/build_all.sh", ".", "-w", "cpu", "-w", "h100", "--python", PYTHON],
        cwd=project,
        env=jobs_environment(tmp_path / "cache", own_wheel),
    )
    assert done.returncode == 1
    other = JOB.replace("cpu", "h100")
    assert done.stdout.splitlines() == [f"=== {JOB}", "REACHED", f"=== {other}", "REACHED"]
    assert done.stderr.splitlines()[-1] == f"failed: {JOB} {other}"


def test_a_build_that_takes_too_long_says_that_it_goes_on(tmp_path: Path) -> None:
    text = (CI / "job.sh").read_text(encoding="utf-8")
    slow = text.replace('command=(torchwheel build "$JOB_PROJECT" -o "$JOB_DIR/dist")', "command=(sleep 60)")
    assert "sleep 60" in slow
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "activate").touch()
    job = {"variables": {"JOB_KIND": "tree", "JOB_PROJECT": "."}}
    given = {"JOB": json.dumps(job), "JOB_DIR": str(tmp_path), "JOB_MINUTES": "0.01"}
    environment = {**clean_environment(tmp_path), **given}
    done = subprocess.run(
        ["bash", "-c", slow, "job.sh", "build"], cwd="/", env=environment, capture_output=True
    )
    assert done.returncode == 124
    assert "it reuses what was compiled" in done.stdout.decode()


@pytest.mark.long
def test_the_steps_of_the_workflow_build_the_wheel(project: Path, tmp_path: Path, own_wheel: Path) -> None:
    jobs = yaml.safe_load((project / "ci" / "github.yml").read_text(encoding="utf-8"))["jobs"]
    output = tmp_path / "output"
    environment = {**jobs_environment(tmp_path / "cache", own_wheel), "GITHUB_OUTPUT": str(output)}
    environment["RUNNER_TEMP"] = str(tmp_path)

    def run(step: dict[str, str]) -> str:
        (tmp_path / "step.sh").write_text(step["run"], encoding="utf-8")
        # As its runner starts it: https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
        command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", tmp_path / "step.sh")
        return check(*command, cwd=project, env=environment, timeout=500)

    (matrix_step,) = [step for step in jobs["plan"]["steps"] if "run" in step]
    targets = "-w a100,h100 -w rtx5070 -w cpu --python 3.12,3.13"
    assert targets in matrix_step["run"]
    text = matrix_step["run"].replace(targets, f"-w cpu --python {PYTHON}")
    run({**matrix_step, "run": text.replace(",linux-aarch64,windows-amd64", "")})
    outputs = dict(line.split("=", 1) for line in output.read_text(encoding="utf-8").splitlines())
    assert list(outputs) == ["linux", "windows"]
    (job,) = json.loads(outputs["linux"])
    # Its jobs are skipped; GitHub refuses a matrix without one.
    assert json.loads(outputs["windows"]) == []
    assert (job["id"], job["wheel"]) == (JOB, WHEEL)
    environment["JOB"] = json.dumps(job, indent=2)
    steps = [step for step in jobs["linux"]["steps"] if "run" in step]
    assert [step["name"] for step in steps] == [
        "Compilers and git",
        "Python and torchwheel",
        "Plan",
        "Build",
        "Inspect",
    ]
    # The image's own step changes a system, which is this machine's here.
    said = {step["name"]: run(step) for step in steps[1:]}
    assert f"wheel        {WHEEL}" in said["Plan"]
    assert "built for  cpu" in said["Inspect"]
    upload = jobs["linux"]["steps"][-1]["with"]
    assert [path.name for path in project.glob(upload["path"])] == [WHEEL]
    # Each job's artifact is a folder; those for GPUs are made elsewhere.
    shutil.copytree(project / ".torchwheel/dist", project / "dist" / JOB)
    (project / "dist/matrix").mkdir()
    shutil.copy(tmp_path / "matrix.json", project / "dist/matrix")
    for label, code in (("cu130.sm90", ["sm90"]), ("cu130.sm120", ["sm120"])):
        tag = f"{CP}-{CP}-linux_x86_64"
        SiteRecipe(f"2.14.1+{label}", tag, code=code).write(project / "dist" / label)
    (site_step,) = [step for step in jobs["site"]["steps"] if "run" in step]
    said = run(site_step)
    assert "variants" in said and "no variant" not in said
    if not reads_variants():
        pytest.skip("uv 0.13.9 or newer is not here")
    index = (project / "site").as_uri()
    own = installed(tmp_path, index, forced("8.6"), "--no-deps")
    assert own == WHEEL.split("-")[1].partition("+")[2]
    assert installed(tmp_path, index, forced("12.1"), "--no-deps") == "cu130.sm120"
