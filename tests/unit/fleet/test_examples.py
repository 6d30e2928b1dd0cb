"""examples/ci, judged by the services' own schemas and by linters, and what they make of the jobs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.test_jobs import ARM, LINUX, WINDOWS, fleet
from places import REPOSITORY
from torchwheel.cli.main import parse_command

CI = REPOSITORY / "examples" / "ci"
ODD = "a 'b' $HOME $(id) \"c\" \\ é: #"


def program(name: str) -> str:
    """A program of this environment, or of the system."""
    found = shutil.which(name, path=sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


def judged(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CI / name).read_text(encoding="utf-8"))
    return found


def matrix(checkout: Path, **changes: Any) -> dict[str, Any]:
    """What the command prints for two targets on two machines, with an odd value."""
    asked = {"platforms": (LINUX, ARM), "targets": ("a100,h100", "cpu"), "settings": {"env.CFLAGS": ODD}}
    return {"jobs": fleet(checkout, **{**asked, **changes}).documents()}


def test_actionlint_has_nothing_to_say() -> None:
    judged(program("actionlint"), CI / "github.yml")


@pytest.mark.parametrize("script", sorted(CI.glob("*.sh")), ids=lambda path: path.name)
def test_a_script_is_sound(script: Path) -> None:
    judged("bash", "-n", script)
    judged(program("shellcheck"), script)
    assert os.name == "nt" or os.access(script, os.X_OK)


def test_every_command_of_torchwheel_is_one_that_it_takes() -> None:
    """Their arguments; the jobs themselves are run in test_running.py."""
    (github,) = [step for step in read("github.yml")["jobs"]["plan"]["steps"] if "run" in step]
    (line,) = [line for line in github["run"].splitlines() if " matrix " in line]
    parse_command(line.partition(" > ")[0].split()[1:])
    (line,) = [line for line in read("gitlab-ci.yml")["plan"]["script"] if line.startswith("torchwheel")]
    parse_command(line.partition(" > ")[0].split()[1:])
    github_site, gitlab_site = read("github.yml")["jobs"]["site"], read("gitlab-job.yml")[".torchwheel-site"]
    (step,) = [step for step in github_site["steps"] if "run" in step]
    for line in (step["run"].splitlines()[-1], gitlab_site["script"][-1]):
        assert parse_command(line.split()[1:]).output == "site"


def test_no_command_of_github_holds_an_expression() -> None:
    """It would be code of whoever chose its value."""
    jobs = read("github.yml")["jobs"]
    assert list(jobs) == ["plan", "linux", "windows", "site", "publish"]
    for job in jobs.values():
        assert not [step for step in job["steps"] if "${{" in step.get("run", "")]


def test_what_the_workflow_asks_of_a_job_is_there(checkout: Path) -> None:
    document = matrix(checkout, platforms=(LINUX, WINDOWS), targets=("cpu",))
    asked = set()
    for job in (read("github.yml")["jobs"][name] for name in ("linux", "windows")):
        text = json.dumps(job)
        asked |= {piece.split()[0].rstrip(")") for piece in text.split("matrix.")[1:]}
    assert asked == {"id", "image", "platform"}
    assert all(asked <= job.keys() for job in document["jobs"])


def test_a_build_ends_before_its_service_ends_it() -> None:
    jobs = read("github.yml")["jobs"]
    for job in (jobs["linux"], jobs["windows"]):
        names = [step.get("name", step.get("uses")) for step in job["steps"]]
        (build,) = (step for step in job["steps"] if step.get("name") == "Build")
        (save,) = (step for step in job["steps"] if "cache/save" in step.get("uses", ""))
        assert (build["timeout-minutes"], save["if"]) == (330, "always()")
        assert names.index("Plan") < names.index("Build") < names.index("actions/cache/save@v5")
        # Without git beforehand, an archive is unpacked, and no commit is known.
        assert names[0] == ("Compilers and git" if "container" in job else "actions/checkout@v6")
    gitlab = read("gitlab-job.yml")[".torchwheel"]
    assert (gitlab["timeout"], gitlab["variables"]["JOB_MINUTES"]) == ("180 minutes", "150")
    assert gitlab["cache"]["when"] == "always"


def test_the_site_is_made_of_what_was_built_and_published() -> None:
    jobs = read("github.yml")["jobs"]
    paths = [step["with"]["path"] for step in jobs["site"]["steps"] if "with" in step]
    assert (jobs["site"]["needs"], jobs["publish"]["needs"]) == (["linux", "windows"], "site")
    assert paths == ["dist", "site", "site"]
    gitlab = read("gitlab-job.yml")
    (built,) = gitlab[".torchwheel"]["artifacts"]["paths"]
    site = gitlab[".torchwheel-site"]
    assert f"torchwheel index {built.removesuffix('/*.whl')} -o site" in site["script"][-1]
    assert (site["pages"], site["artifacts"], site["cache"]["paths"]) == (
        {"publish": "site"},
        {"paths": ["site/"]},
        ["site/"],
    )


def test_the_image_gets_the_same_everywhere() -> None:
    (step,) = [
        step
        for step in read("github.yml")["jobs"]["linux"]["steps"]
        if step.get("name") == "Compilers and git"
    ]
    script = (CI / "job.sh").read_text(encoding="utf-8").replace("\\\n", "")
    system = script.partition("\nsystem() {\n")[2].partition("\n}\n")[0]
    assert [" ".join(line.split()) for line in system.splitlines()] == step["run"].splitlines()
