"""Wheel caches that are broken: what lies there is passed over with its reason, and no traceback."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from engine.test_obtain import built, request, tree
from torchwheel.engine.wheel_cache import difference, keep, take
from torchwheel.plan.make import make_plan
from torchwheel.plan.model import Plan
from torchwheel.survey import BuildRequest, survey
from torchwheel.tree.read import source_facts_json

__all__ = ["tree"]

OTHER_OPTIONS = "it was built with other options"


def plan_with(asked: BuildRequest, place: Path | str) -> tuple[Plan, BuildRequest]:
    asked = replace(asked, config_settings={**asked.config_settings, "wheel-cache": str(place)})
    return make_plan(survey(asked)), asked


def taken(asked: BuildRequest, place: Path | str, tmp_path: Path) -> Path | None:
    plan, asked = plan_with(asked, place)
    (tmp_path / "dist").mkdir(exist_ok=True)
    return take(plan, tmp_path / "dist", None, asked.environment)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"source": "yes"}, "the build manifest is malformed: plan.source is missing, or of another type"),
        ({"source": {}}, "no commit says that the source is the same"),
        ({"layers": {"a": 1}}, "the build manifest is malformed: plan.layers is missing, or of another type"),
        ({"layers": [{"key": "env.CXX", "value": 3}], "fingerprint": ""}, OTHER_OPTIONS),
        (
            {"layers": [["key"]]},
            "the build manifest is malformed: plan.layers is missing, or of another type",
        ),
        ({"options": []}, "the build manifest is malformed: plan.options is missing, or of another type"),
        (
            {"options": {"requested": {"A": 1}}},
            "the build manifest is malformed: plan.options is missing, or of another type",
        ),
    ],
)
def test_manifests_of_another_shape(changes: dict[str, Any], why: str, tree: Path, tmp_path: Path) -> None:
    asked = request(tree, "rtx5070")
    wheel = built(asked, tmp_path / "shared", **changes)
    assert difference(make_plan(survey(asked)), wheel) == why


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"source": {"dirty": True}}, "it was built from a tree with changes that were not committed"),
        ({"source": {"untracked": 1}}, "it was built with files that are not in the commit"),
        ({"skipped_checks": ["feature-lost"]}, "it was built with -C skip-check=feature-lost"),
        ({"layers": [{"key": "wheel.exclude", "value": "torch/test/**"}]}, OTHER_OPTIONS),
        ({"layers": [{"key": "build.verbose", "value": "true"}]}, ""),
        (
            {"layers": [{"key": "env.CXX", "value": "/opt/cxx"}], "fingerprint": ""},
            "it was built with other options",
        ),
        (
            {"layers": [{"key": "env.CXXFLAGS", "value": "-O1 -I/x"}], "fingerprint": ""},
            "it was built with other options",
        ),
        (
            {"layers": [{"key": "cmake-args", "value": "-Wdev"}], "fingerprint": ""},
            "it was built with other options",
        ),
        ({"fingerprint": ""}, ""),
    ],
)
def test_what_is_not_the_plan_s_wheel(changes: dict[str, Any], why: str, tree: Path, tmp_path: Path) -> None:
    """Of the same name, and of the same commit."""
    asked = request(tree, "rtx5070")
    plan = make_plan(survey(asked))
    if "source" in changes:
        changes = {**changes, "source": {"commit": plan.tree.commit, **changes["source"]}}
    wheel = built(asked, tmp_path / "shared", **changes)
    assert difference(plan, wheel) == why


def test_flags_with_a_path_of_both_machines(tree: Path, tmp_path: Path) -> None:
    asked = request(
        tree, "rtx5070", **{"env.CXXFLAGS": f"-O1 -I{Path.home()}/x", "wheel.exclude": "torch/test/**"}
    )
    layers = [
        {"key": "env.CXXFLAGS", "value": "-O1 -I~/x"},
        {"key": "wheel.exclude", "value": "torch/test/**"},
    ]
    wheel = built(asked, tmp_path / "shared", layers=layers, fingerprint="")
    assert difference(make_plan(survey(asked)), wheel) == ""
    wheel = built(asked, tmp_path / "shared", layers=layers[:1])
    assert difference(make_plan(survey(asked)), wheel) == OTHER_OPTIONS


def test_a_tree_that_is_not_its_commit_neither_takes_nor_gives(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, shared = request(tree, "rtx5070"), tmp_path / "shared"
    wheel = built(asked, tmp_path)
    plan, asked = plan_with(asked, shared)
    keep(plan, wheel)
    assert difference(plan, shared / wheel.name) == ""
    (shared / wheel.name).unlink()

    (tree / "torch" / "added.py").touch()
    keep(plan, wheel)
    why = "this tree has files that are not in the commit: torch/added.py"
    assert difference(plan, wheel) == why
    said = f"torchwheel: {wheel.name} is not put into the wheel cache: {why}\n"
    assert (capsys.readouterr().out, list(shared.iterdir())) == (said, [])

    # As in an sdist, whose files anybody may have changed.
    (tree / ".torchwheel-source.json").write_bytes(source_facts_json(plan.tree, "x"))
    shutil.rmtree(tree / ".git")
    plan, _ = plan_with(asked, shared)
    assert difference(plan, wheel) == "without git nothing says that this tree is as it was in the commit"


def test_what_is_no_wheel(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked, shared = request(tree, "rtx5070"), tmp_path / "shared"
    wheel = built(asked, shared)
    whole = wheel.read_bytes()
    for content in (b"", whole[: len(whole) // 2], whole[:50] + b"spoilt" + whole[56:]):
        wheel.write_bytes(content)
        assert taken(asked, shared, tmp_path) is None
        assert f"torchwheel: {wheel} does not serve: " in capsys.readouterr().out
    wheel.unlink()
    wheel.mkdir()
    assert taken(asked, shared, tmp_path) is None
    assert capsys.readouterr().out == ""
    assert list((tmp_path / "dist").iterdir()) == []


class Broken(BaseHTTPRequestHandler):
    """Answers by the first folder of the address."""

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        if kind == "error":
            self.send_error(500)
        elif kind == "loop":
            self.send_response(302)
            self.send_header("Location", self.path)
            self.end_headers()
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html><a href='/login'>Sign in</a></html>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def broken() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Broken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:secret@127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["error", "loop", "page"])
def test_an_index_that_is_none(
    kind: str, broken: str, tree: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = request(tree, "rtx5070")
    asked = replace(asked, environment={**asked.environment, "PIP_CONFIG_FILE": os.devnull})
    index = f"{broken}/{kind}/simple"
    assert taken(asked, index, tmp_path) is None
    shown = index.replace("me:secret", "...")
    version = make_plan(survey(asked)).version
    log = tree.parent / "cache" / "get.log"
    assert capfd.readouterr().out.splitlines() == [
        f"torchwheel: looking for torch {version} in {shown}",
        f"torchwheel: no wheel came from {shown}: what pip says is in {log}",
    ]
    assert "ERROR: " in log.read_text(encoding="utf-8")
