"""The files for services, judged by the services' own schemas and by linters, and what values become in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml
from dockerfile_parse import DockerfileParser

from fleet.test_jobs import fleet, request
from torchwheel.fleet.formats import files, script
from torchwheel.fleet.services import services

ODD = "a 'b' $HOME $(id) ${{ github.token }} \"c\" \\ é: #"
SETTINGS = {"env.CFLAGS": ODD}
SCRIPTS = sysconfig.get_path("scripts")


def program(name: str) -> str:
    """A program of this environment, or of the system."""
    found = shutil.which(name, path=SCRIPTS + os.pathsep + os.environ["PATH"])
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


def judged(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def made(project: Path, format: str, folder: str = "ci/a b", **changes: Any) -> dict[str, str]:
    """The files for two targets on all platforms that the service has machines for."""
    service = services()[format]
    asked = {
        "service": service,
        "platforms": tuple(service.platforms),
        "targets": ("a100,h100", "cpu"),
        "settings": SETTINGS,
        **changes,
    }
    return files(fleet(project, **asked), request(project, **asked), folder)


SCHEMAS = {"github": "github-workflows", "gitlab": "gitlab-ci", "cloud-build": "cloudbuild"}


@pytest.mark.slow
@pytest.mark.parametrize("format", SCHEMAS)
@pytest.mark.parametrize("kind", ["tree", "extension"])
def test_a_file_is_as_the_service_says(format: str, kind: str, checkout: Path, tmp_path: Path) -> None:
    stable = Path(__file__).parents[2] / "examples" / "stable_kernel"
    found = made(checkout if kind == "tree" else stable, format)
    names = [name for name in found if name.endswith((".yml", ".yaml"))]
    assert names
    for name in names:
        (tmp_path / name).write_text(found[name], encoding="utf-8")
        schema = f"vendor.{SCHEMAS[format]}"
        judged(program("check-jsonschema"), "--builtin-schema", schema, tmp_path / name)


@pytest.mark.slow
def test_the_judge_sees_what_is_wrong(checkout: Path, tmp_path: Path) -> None:
    broken = made(checkout, "github")["torchwheel.yml"].replace("runs-on", "runs_on")
    (tmp_path / "x.yml").write_text(broken, encoding="utf-8")
    with pytest.raises(AssertionError, match="runs"):
        judged(program("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", tmp_path / "x.yml")


def test_actionlint_has_nothing_to_say(checkout: Path, tmp_path: Path) -> None:
    file = tmp_path / "torchwheel.yml"
    file.write_text(made(checkout, "github")["torchwheel.yml"], encoding="utf-8")
    judged(program("actionlint"), file)


@pytest.mark.parametrize("format", ["shell", "cloud-build"])
def test_scripts_are_sound(format: str, checkout: Path, tmp_path: Path) -> None:
    found = made(checkout, format)
    (name,) = (name for name in found if name.endswith(".sh"))
    (tmp_path / name).write_text(found[name], encoding="utf-8")
    judged("bash", "-n", tmp_path / name)
    # SC1091: what it sources is written by the job itself. SC2016: a value holds what looks like an expansion.
    judged(program("shellcheck"), "--exclude", "SC1091,SC2016", tmp_path / name)


@pytest.mark.parametrize("kind", ["tree", "extension", "cmake-extension"])
def test_the_commands_of_every_kind_are_sound(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "step.sh"
    for step in ("tools", "plan", "build", "inspect"):
        file.write_text(f"#!/usr/bin/env bash\nset -euo pipefail\n{script(step, kind)}", encoding="utf-8")
        judged(program("shellcheck"), "--exclude", "SC1091", file)
        text = script(step, kind, "pwsh")
        assert not {"COMMAND", "PROJECT", "DIST"} & set(text.replace("$env:JOB_PROJECT", "").split())
    assert (script("plan", kind) == "") is (kind == "cmake-extension")


def test_the_dockerfile_is_one(checkout: Path, tmp_path: Path) -> None:
    text = made(checkout, "cloud-build")["Dockerfile"]
    parser = DockerfileParser(path=str(tmp_path))
    parser.content = text
    # The last two are FROM's continuation: what it builds on, by its argument's default.
    assert [one["instruction"] for one in parser.structure if one["instruction"] != "COMMENT"] == [
        "ARG", "FROM", "RUN",
    ]  # fmt: skip
    assert parser.baseimage == "nvidia/cuda:13.0.2-cudnn-devel-ubuntu22.04"
    # DL3008: the versions are those of the image's own distribution.
    judged(program("hadolint"), "--ignore", "DL3008", tmp_path / "Dockerfile")


# --- what a value becomes


def exported(text: str, variable: str) -> str:
    """A variable's value in the script, as bash has it in a job."""
    stop = text.index("\ntools() (")
    run = f"{text[:stop]}\ntools() {{ printf '%s' \"${variable}\"; exit; }}\njob cpu-cp312-linux-x86-64"
    done = subprocess.run(["bash", "-c", run], capture_output=True, encoding="utf-8", check=True)
    return done.stdout


@pytest.mark.slow
def test_an_odd_value_arrives_as_it_is(checkout: Path) -> None:
    wanted = fleet(checkout, settings=SETTINGS).variables["TORCHWHEEL_ENV"]
    assert ODD.replace("'", "'\"'\"'") in wanted
    assert exported(made(checkout, "shell")["torchwheel.sh"], "TORCHWHEEL_ENV") == wanted
    github = yaml.safe_load(made(checkout, "github")["torchwheel.yml"])
    own = github["jobs"]["linux"]["env"]["TORCHWHEEL_ENV"]
    # GitHub evaluates the one expression that is left, which is a text with the beginning of one.
    assert own.replace("${{ '${{' }}", "${{") == wanted and own.count("${{ '${{' }}") == 1
    gitlab = yaml.safe_load(made(checkout, "gitlab")["torchwheel.gitlab-ci.yml"])
    assert gitlab[".torchwheel"]["variables"]["TORCHWHEEL_ENV"].replace("$$", "$") == wanted
    cloud = yaml.safe_load(made(checkout, "cloud-build")["cpu-cp312-linux-x86-64.yaml"])
    (value,) = (one for one in cloud["options"]["env"] if one.startswith("TORCHWHEEL_ENV="))
    assert value.partition("=")[2].replace("$$", "$") == wanted


def test_no_command_of_github_holds_an_expression(checkout: Path) -> None:
    jobs = yaml.safe_load(made(checkout, "github")["torchwheel.yml"])["jobs"]
    assert list(jobs) == ["linux", "windows"]
    for job in jobs.values():
        assert not [step for step in job["steps"] if "${{" in step.get("run", "")]


@pytest.mark.slow
def test_the_matrix_has_the_keys_of_the_document(checkout: Path) -> None:
    """So that ``include`` may be what the command prints at run time."""
    jobs = yaml.safe_load(made(checkout, "github", settings={})["torchwheel.yml"])["jobs"]
    included = [one for job in jobs.values() for one in job["strategy"]["matrix"]["include"]]
    documents = {job.name: job.document() for job in fleet(
        checkout, platforms=tuple(services()["github"].platforms), targets=("a100,h100", "cpu")
    ).jobs}  # fmt: skip
    assert len(included) == len(documents)
    for one in included:
        assert one.items() <= documents[one["id"]].items()


@pytest.mark.slow
def test_a_build_ends_before_its_service_ends_it(checkout: Path) -> None:
    jobs = yaml.safe_load(made(checkout, "github")["torchwheel.yml"])["jobs"]
    for job in jobs.values():
        names = [step.get("name", step.get("uses")) for step in job["steps"]]
        (build,) = (step for step in job["steps"] if step.get("name") == "Build")
        (save,) = (step for step in job["steps"] if "cache/save" in step.get("uses", ""))
        assert (build["timeout-minutes"], save["if"]) == (330, "always()")
        assert names.index("Plan") < names.index("Build") < names.index("actions/cache/save@v5")
        # Without git beforehand, an archive is unpacked, and no commit is known.
        assert names[0] == ("Compilers and git" if "container" in job else "actions/checkout@v6")
        # 10 GB for eight jobs.
        assert job["env"]["CCACHE_MAXSIZE"] == job["env"]["SCCACHE_CACHE_SIZE"] == "1250M"
    gitlab = yaml.safe_load(made(checkout, "gitlab")["torchwheel.gitlab-ci.yml"])[".torchwheel"]
    assert (gitlab["timeout"], gitlab["variables"]["JOB_MINUTES"]) == ("180 minutes", "150")
    assert gitlab["cache"]["when"] == "always"
    cloud = yaml.safe_load(made(checkout, "cloud-build")["cpu-cp312-linux-x86-64.yaml"])
    assert [step["id"] for step in cloud["steps"] if step.get("allowFailure")] == ["build"]
    assert [step["id"] for step in cloud["steps"]] == [
        "image", "restore", "submodules", "tools", "plan", "build", "store", "inspect",
    ]  # fmt: skip


@pytest.mark.slow
def test_wheels_lie_where_the_project_says(checkout: Path) -> None:
    assert "JOB_WHEELS: keep" in made(checkout, "gitlab")["torchwheel.gitlab-ci.yml"]
    (checkout / "pyproject.toml").open("a").write('\n[tool.torchwheel]\nwheel-cache = ["/srv/wheels"]\n')
    assert 'JOB_WHEELS: ""' in made(checkout, "gitlab")["torchwheel.gitlab-ci.yml"]


@pytest.mark.slow
def test_the_head_of_a_file_says_what_its_machines_cannot(checkout: Path) -> None:
    for format, service in services().items():
        for text in made(checkout, format).values():
            head = " ".join(line[2:] for line in text.splitlines() if line.startswith("# "))
            assert service.limits[1:] in head
            assert all(source in head for source in service.sources)
