"""examples/ci, judged by the services' own schemas and by linters, and what they make of the jobs.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from answered import answered
from fleet.test_jobs import ARM, LINUX, WINDOWS
from unit.fleet.test_examples import CI, judged, matrix, program, read


def gitlab_jobs(document: dict[str, Any]) -> dict[str, Any]:
    done = answered([sys.executable, CI / "gitlab_jobs.py"], input=json.dumps(document), check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("name", "schema"), [("github.yml", "github-workflows"), ("gitlab-ci.yml", "gitlab-ci")]
)
def test_a_file_is_as_the_service_says(name: str, schema: str) -> None:
    judged(program("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", CI / name)


def test_the_child_pipeline_is_as_gitlab_says(checkout: Path, tmp_path: Path) -> None:
    made = {**read("gitlab-job.yml"), **gitlab_jobs(matrix(checkout))}
    assert len(made) == 7
    assert made["pages"]["extends"] == ".torchwheel-site"
    (line,) = made["pages"]["before_script"]
    encoded = re.fullmatch(r"echo ([\w+/=]+) \| base64 -d > matrix.json", line)
    assert encoded and json.loads(base64.b64decode(encoded[1])) == matrix(checkout)
    (tmp_path / "child.yml").write_text(json.dumps(made), encoding="utf-8")
    judged(program("check-jsonschema"), "--builtin-schema", "vendor.gitlab-ci", tmp_path / "child.yml")


def test_the_judge_sees_what_is_wrong(tmp_path: Path) -> None:
    broken = (CI / "github.yml").read_text(encoding="utf-8").replace("runs-on", "runs_on")
    (tmp_path / "x.yml").write_text(broken, encoding="utf-8")
    with pytest.raises(AssertionError, match="runs"):
        judged(program("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", tmp_path / "x.yml")


@pytest.mark.parametrize("target", ["v100", "cpu"])
def test_a_platform_that_a_target_cannot_have_gets_an_empty_list(
    target: str, checkout: Path, tmp_path: Path
) -> None:
    """The step of GitHub's plan, on all of its platforms: GitHub skips a job whose list is ``[]``."""
    document = matrix(checkout, platforms=(LINUX, ARM, WINDOWS), targets=(target,), settings={})
    (tmp_path / "matrix.json").write_text(json.dumps(document), encoding="utf-8")
    (step,) = [step for step in read("github.yml")["jobs"]["plan"]["steps"] if "run" in step]
    lines = step["run"].partition(" matrix . ")[2].partition("\n")[2]
    environment = {**os.environ, "RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "output")}
    command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines)
    subprocess.run(command, check=True, env=environment)
    output = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert {name: {job["platform"] for job in json.loads(text)} for name, text in output.items()} == {
        "linux": {LINUX, ARM},
        "windows": set() if target == "v100" else {WINDOWS},
    }


# --- values


def test_an_odd_value_arrives_as_it_is(checkout: Path) -> None:
    (job, *_) = matrix(checkout)["jobs"]
    wanted = job["variables"]["TORCHWHEEL_ENV"]
    assert "$HOME $(id)" in wanted
    base64_of_job = gitlab_jobs({"jobs": [job]})[job["id"]]["variables"]["JOB_BASE64"]
    assert "$" not in base64_of_job
    assert json.loads(base64.b64decode(base64_of_job)) == job
    # The script's own reading, with its steps replaced by one that prints.
    text = (
        (CI / "job.sh")
        .read_text(encoding="utf-8")
        .replace("\nplan() {\n", '\nplan() {\n  printf %s "$TORCHWHEEL_ENV"; return\n')
    )
    for given in ({"JOB": json.dumps(job)}, {"JOB_BASE64": base64_of_job}):
        done = answered(["bash", "-c", text, "job.sh", "plan"], env={**os.environ, **given}, check=True)
        assert done.stdout == wanted
