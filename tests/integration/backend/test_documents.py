"""``torchwheel build --json``: one document on standard output, the progress elsewhere."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from backend.builds import clean_environment as environment
from backend.builds import cmake_cache, compiled, log_of, make_tree, run
from backend.builds import torchwheel as command
from backend.conftest import Site
from shipped_data import document_schema

QUICK = ("--target", "cpu", "--disable", "tests,openmp,mpi", "-C", "build-env=current")


def carry_out(source: Path, cache: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    return run(*command("build", source, "--json", *more), cwd=cache.parent, env=environment(cache))


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The only thing on standard output, which must be as its schema says."""
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, document_schema("build"), cls=jsonschema.Draft202012Validator)
    return found


def test_a_wheel_that_was_built(site: Site, tmp_path: Path) -> None:
    began = time.monotonic()
    done = carry_out(site.project, site.cache, "-o", tmp_path / "aus")
    found = document(done)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "aus").glob("*.whl")
    (constraints,) = (tmp_path / "aus").glob("*.txt")
    content = wheel.read_bytes()
    assert 0 < found.pop("seconds") < time.monotonic() - began
    assert found == {
        "schema": 1,
        "command": "build",
        "ok": True,
        "wheel": str(wheel),
        "file": site.wheel.name,
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "constraints": str(constraints),
        "compiled": len(compiled(site.cache)),
        "version": "2.14.1+cpu.nompi.noopenmp",
        "label": "cpu.nompi.noopenmp",
        "build": str(cmake_cache_file(site.cache).parent),
        "log": str(log_of(site.cache)),
        "findings": [],
        "skipped": [],
    }
    assert "$ " not in done.stdout
    assert done.stderr, "the progress"


@pytest.mark.long
def test_what_was_compiled_is_counted(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    settings = (*QUICK, "-o", tmp_path / "aus")
    first = document(carry_out(tree, tmp_path / "cache", *settings))
    assert first["compiled"] == len(compiled(tmp_path / "cache")) > 3
    again = document(carry_out(tree, tmp_path / "cache", *settings))
    assert again["compiled"] == 0
    assert (again["file"], again["build"]) == (first["file"], first["build"])


def test_a_folder_that_was_configured(site: Site) -> None:
    done = carry_out(site.project, site.cache, "--configure-only")
    found = document(done)
    assert done.returncode == 0, done.stderr
    assert found.pop("seconds") > 0
    assert found.pop("proved") > 3
    assert found.pop("unproved") == {}
    cache_file = cmake_cache_file(site.cache)
    assert found == {
        "schema": 1,
        "command": "build",
        "ok": True,
        "file": site.wheel.name,
        "cmake_cache": str(cache_file),
        "version": "2.14.1+cpu.nompi.noopenmp",
        "label": "cpu.nompi.noopenmp",
        "build": str(cache_file.parent),
        "log": str(log_of(site.cache)),
        "findings": [],
        "skipped": [],
    }


def test_a_request_that_cannot_be_carried_out(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    done = carry_out(tree, tmp_path / "cache", "--target", "rtx5O70")
    found = document(done)
    assert found.pop("seconds") >= 0
    problems = found.pop("problems")
    assert [(p["id"], p["remedy"]) for p in problems] == [("unknown-target", "did you mean rtx5070 (12.0)?")]
    assert found == {"schema": 1, "command": "build", "ok": False, "log": None, "diagnosis": None}
    assert (done.returncode, done.stderr.count("[unknown-target]")) == (2, 1)


def test_a_failure_of_the_tree_s_own_backend(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    with (tree / "CMakeLists.txt").open("a", encoding="utf-8") as stream:
        stream.write("\nmessage(FATAL_ERROR \"nvcc fatal   : Unsupported gpu architecture 'compute_120'\")\n")
    done = carry_out(tree, tmp_path / "cache", *QUICK)
    found = document(done)
    assert done.returncode == 1
    assert [problem["id"] for problem in found["problems"]] == ["inner-build-failed"]
    assert found["log"] == str(log_of(tmp_path / "cache"))
    jsonschema.validate(found["diagnosis"], document_schema("diagnosis"), cls=jsonschema.Draft202012Validator)
    assert found["diagnosis"]["cause"]["id"] == "unsupported-gpu-architecture"
    assert "[inner-build-failed]" in done.stderr


def cmake_cache_file(cache: Path) -> Path:
    root = log_of(cache).parent
    nested = root / "source" / "build" / "CMakeCache.txt"
    assert cmake_cache(cache)
    return nested if nested.is_file() else root / "build" / "CMakeCache.txt"
