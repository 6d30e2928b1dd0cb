"""Whether a wheel was built for a plan, by its manifest; places to get wheels from that are broken."""

from __future__ import annotations

import errno
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from engine.test_wheel_sources import built, released, request, tree
from refusals import error_of, ids_of
from torchwheel.cli.adopt import adopt
from torchwheel.engine.build import build_wheel, configure
from torchwheel.engine.staging import locked_folders
from torchwheel.engine.tree_wheel import describe_difference, describe_provenance, refuse_to_replace
from torchwheel.engine.wheel_sources import Way, carry_out, choose_way
from torchwheel.index import remote
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.plan.output import decisions_document
from torchwheel.survey import BuildRequest, survey
from torchwheel.tree.source_tree import source_facts_json
from tree.small_trees import git

__all__ = ["released", "tree"]

OTHER_OPTIONS = "it was built with other options"


def taken(asked: BuildRequest, place: Path | str, tmp_path: Path) -> Path | None:
    """What ``get`` hands over of a place; None where a build would come."""
    choice = choose_way(asked, (place,))
    return None if choice.way is Way.BUILD else carry_out(choice, asked, tmp_path / "dist")


def refused(asked: BuildRequest, place: Path | str, tmp_path: Path) -> str:
    """Why a wheel of a place was passed over, or not handed over after all."""
    choice = choose_way(asked, (place,))
    if choice.way is Way.BUILD:
        return next(reason for reason in choice.reasons if "does not fit" in reason)
    (problem,) = error_of(carry_out, choice, asked, tmp_path / "dist").problems
    return problem.what


@pytest.fixture(scope="module")
def plan(released: Path) -> Plan:
    return make_plan(survey(request(released)))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"source": "yes"}, "plan.source"),
        ({"layers": [["key"]]}, "plan.layers"),
        ({"options": {"requested": {"A": 1}}}, "plan.options.requested.A"),
        ({"skipped_checks": 5}, "plan.skipped_checks"),
        ({"source": {}}, "no commit"),
        ({"source": {"commit": "1" * 40}}, "another commit"),
        ({"source": {"dirty": True}}, "not committed"),
        ({"source": {"untracked": 1}}, "not in the commit"),
        ({"skipped_checks": ["feature-lost"]}, "skip-check=feature-lost"),
        ({"fingerprint": "0", "options": {"requested": {"USE_NCCL": "1"}}}, OTHER_OPTIONS),
        ({"layers": [{"key": "wheel.exclude", "value": "torch/test/**"}]}, OTHER_OPTIONS),
        ({"layers": [{"key": "build.verbose", "value": "true"}]}, ""),
        ({"layers": [{"key": "env.CXX", "value": "/opt/cxx"}], "fingerprint": ""}, OTHER_OPTIONS),
        ({"layers": [{"key": "env.CXX", "value": 3}], "fingerprint": ""}, OTHER_OPTIONS),
        ({"layers": [{"key": "env.CXXFLAGS", "value": "-O1 -I/x"}], "fingerprint": ""}, OTHER_OPTIONS),
        ({"layers": [{"key": "cmake-args", "value": "-Wdev"}], "fingerprint": ""}, OTHER_OPTIONS),
        ({"fingerprint": ""}, ""),
    ],
)
def test_what_is_not_the_plan_s_wheel(changes: dict[str, Any], why: str, plan: Plan, tmp_path: Path) -> None:
    if isinstance(changes.get("source"), dict) and changes["source"]:
        changes = {**changes, "source": {"commit": plan.tree.commit, **changes["source"]}}
    said = describe_difference(plan, built(plan, tmp_path, **changes))
    assert why in said if why else said == ""


def test_a_reproducible_build_with_a_variable_that_no_manifest_tells_is_repeated_and_no_other_passes(
    tree: Path, tmp_path: Path
) -> None:
    asked = request(tree, "rtx5070")
    plans = {}
    for value in ("one", "other"):
        given = replace(asked, config_settings={**asked.config_settings, "env.OWN": value})
        plans[value] = make_plan(survey(given))
        made = {**decisions_document(plans[value].settings, ()), "fingerprint": None}
        wheel = built(given, tmp_path / value, **made)
        assert refuse_to_replace(plans[value], wheel) == ()
        # Another one would be taken for it once in many times.
        assert "env.OWN" in describe_difference(plans[value], wheel)
    assert ids_of(refuse_to_replace, plans["one"], wheel) == ["output-of-another-build"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"fingerprint": ""}, None),
        ({"source": {"commit": "0" * 40}}, None),
        ({"source": {"commit": "0" * 40}, "fingerprint": ""}, "another commit"),
        ({"layers": [{"key": "wheel.exclude", "value": "torch/test/**"}]}, "wheel.exclude"),
        ({"options": []}, "manifest"),
    ],
)
def test_a_wheel_of_another_build_is_not_replaced(
    changes: dict[str, Any], why: str | None, plan: Plan, tmp_path: Path
) -> None:
    wheel = built(plan, tmp_path / "dist", **changes)
    assert refuse_to_replace(plan, wheel.with_name("torch-0.whl")) == ()
    if why is None:
        assert refuse_to_replace(plan, wheel) == ()
        return
    (problem,) = error_of(refuse_to_replace, plan, wheel).problems
    assert (problem.id, why in problem.why) == ("output-of-another-build", True)
    skipping = request(plan.tree.root, **{"skip-check": "output-of-another-build"})
    (passed,) = refuse_to_replace(make_plan(survey(skipping)), wheel)
    assert why in passed.problem.why


def test_all_that_stops_a_build_is_told_at_once(tree: Path, tmp_path: Path) -> None:
    """What the plan finds, what the preflight does, and what lies where the wheel would."""
    asked = request(tree, "cpu")
    settings = {**asked.config_settings, "define.CMAKE_CXX_FLAGS": "-DX=]===]"}
    asked = replace(
        asked, config_settings=settings, environment={**asked.environment, "CXX": str(tmp_path / "none")}
    )
    wheel = built(asked, tmp_path / "dist", options=[])
    error = error_of(build_wheel, asked, wheel.parent)
    stopping = ["no-host-compiler", "value-not-forwarded"]
    assert [problem.id for problem in error.problems] == [*stopping, "output-of-another-build"]
    assert ids_of(configure, asked) == stopping


def test_flags_with_a_path_of_both_machines(tree: Path, tmp_path: Path) -> None:
    asked = request(
        tree, "rtx5070", **{"env.CXXFLAGS": f"-O1 -I{Path.home()}/x", "wheel.exclude": "torch/test/**"}
    )
    layers = [
        {"key": "env.CXXFLAGS", "value": "-O1 -I~/x"},
        {"key": "wheel.exclude", "value": "torch/test/**"},
    ]
    wheel = built(asked, tmp_path / "shared", layers=layers, fingerprint="")
    assert describe_difference(make_plan(survey(asked)), wheel) == ""
    wheel = built(asked, tmp_path / "shared", layers=layers[:1])
    assert describe_difference(make_plan(survey(asked)), wheel) == OTHER_OPTIONS


@pytest.mark.parametrize(
    ("compiler", "why"), [("/opt/other/bin/g++", ""), ("/usr/bin/clang++", OTHER_OPTIONS)]
)
@pytest.mark.parametrize("key", ["env.CXX", "define.CMAKE_CXX_COMPILER"])
def test_of_a_compiler_the_name_counts(key: str, compiler: str, why: str, tree: Path, tmp_path: Path) -> None:
    """Of other paths, which are another machine's, only that they are given."""
    asked = request(tree, **{key: "/usr/bin/g++"})
    plan = make_plan(survey(request(tree, **{key: compiler})))
    made = make_plan(survey(asked))
    layers = decisions_document(made.settings, ())["layers"]
    wheel = built(asked, tmp_path / "shared", layers=layers)
    assert (describe_difference(made, wheel), describe_difference(plan, wheel)) == ("", why)


def test_a_variable_whose_value_no_manifest_tells_may_have_been_another(tree: Path, tmp_path: Path) -> None:
    """Only the same fingerprint says that it was the same."""
    plans = [make_plan(survey(request(tree, **{"env.MY_FEATURE": value}))) for value in ("fast", "none")]
    layers = decisions_document(plans[0].settings, ())["layers"]
    asked = request(tree, **{"env.MY_FEATURE": "fast"})
    wheel = built(asked, tmp_path / "shared", layers=layers)
    same, unknown = (describe_difference(plan, wheel) for plan in plans)
    assert (same, "env.MY_FEATURE" in unknown) == ("", True)
    assert [problem.why for problem in error_of(refuse_to_replace, plans[1], wheel).problems] == [unknown]
    assert refuse_to_replace(plans[0], wheel) == ()


@pytest.mark.parametrize("bit", ["skip-worktree", "assume-unchanged"])
def test_a_tree_where_git_is_told_not_to_look_may_be_changed(bit: str, tree: Path, tmp_path: Path) -> None:
    asked = request(tree)
    wheel = built(asked, tmp_path / "shared")
    git(tree, "update-index", f"--{bit}", "torch/__init__.py")
    plan = make_plan(survey(asked))
    assert (plan.tree.dirty, plan.version.local) == (True, "cu130.sm120.dirty")
    assert "not committed" in describe_difference(plan, wheel)


def test_no_wheel_was_built_for_a_tree_that_is_not_its_commit(tree: Path, tmp_path: Path) -> None:
    asked = request(tree, "rtx5070")
    wheel = built(asked, tmp_path)
    adopt(tree)  # Its own files do not count.
    plan = make_plan(survey(asked))
    built(asked, tmp_path)
    assert describe_difference(plan, wheel) == ""

    (tree / "torch" / "added.py").touch()
    assert "torch/added.py" in describe_difference(plan, wheel)

    # As in an sdist, whose files anybody may have changed.
    (tree / ".torchwheel-source.json").write_bytes(source_facts_json(plan.tree, "x"))
    shutil.rmtree(tree / ".git")
    plan = make_plan(survey(asked))
    assert "without git" in describe_difference(plan, wheel)


def test_of_a_file_among_cmakes_arguments_no_manifest_tells(tree: Path, tmp_path: Path) -> None:
    """One in the tree is its commit's."""
    file = tmp_path / "initial.cmake"
    file.touch()
    asked = request(tree, **{"cmake.args": f"-C;{file}"})
    wheel = built(asked, tmp_path, layers=[{"key": "cmake.args", "value": f"-C;{file}"}])
    plan = make_plan(survey(asked))
    assert str(file) in describe_difference(plan, wheel)
    asked = request(tree, **{"cmake.args": "-Ccmake/Summary.cmake"})
    wheel = built(asked, tmp_path, layers=[{"key": "cmake.args", "value": "-Ccmake/Summary.cmake"}])
    assert describe_difference(make_plan(survey(asked)), wheel) == ""


def test_what_is_in_no_commit_is_what_was_there_when_the_build_began(tree: Path) -> None:
    """In hours it may be committed, or deleted."""
    asked, added = request(tree), tree / "torch" / "added.py"
    plan = make_plan(survey(asked))
    added.touch()
    with locked_folders(plan, {}) as (new, _):
        added.unlink()
        plan.folders.build.mkdir()
        plan.folders.cmake_cache.touch()
        plan.folders.cmake_values.write_text("{}", encoding="utf-8")
        assert (new, describe_provenance(plan, new)["source"]["untracked"]) == (("torch/added.py",), 1)


def test_what_is_no_wheel(tree: Path, tmp_path: Path) -> None:
    asked, shared = request(tree, disable="nccl"), tmp_path / "shared"
    wheel = built(asked, shared)
    whole = wheel.read_bytes()
    for content in (b"", whole[: len(whole) // 2], whole[:50] + b"spoilt" + whole[56:]):
        wheel.write_bytes(content)
        said = refused(asked, shared, tmp_path)
        assert said.startswith((f"{wheel} does not fit", f"{wheel} does not pass verification"))
    wheel.unlink()
    wheel.mkdir()
    assert taken(asked, shared, tmp_path) is None


def test_a_wheel_that_changes_while_it_is_copied_is_not_handed_over(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passed when it was looked at; a file server may lose its end, and others may put another in its place."""
    asked, shared, dist = request(tree, disable="nccl"), tmp_path / "shared", tmp_path / "dist"
    wheel = built(asked, shared)
    whole = wheel.read_bytes()
    for left, said in (
        (whole[:-1], f"[Errno 5] {len(whole) - 1:,} bytes were copied of {len(whole):,}: '{wheel}'"),
        (b"x" * len(whole), "its table of contents cannot be read: "),
    ):

        def copy(source: Path, part: Path, content: bytes = left) -> None:
            part.write_bytes(content)

        with monkeypatch.context() as patched:
            patched.setattr("shutil.copyfile", copy)
            assert refused(asked, shared, tmp_path).startswith(f"{wheel} does not pass verification: {said}")
        assert list(dist.iterdir()) == []
    target = taken(asked, shared, tmp_path)
    assert target is not None
    assert (target.read_bytes(), list(dist.iterdir())) == (whole, [target])


def test_a_full_disk_is_an_error_and_no_reason_to_build(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, shared = request(tree, disable="nccl"), tmp_path / "shared"
    built(asked, shared)

    def copy(source: Path, part: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(part))

    monkeypatch.setattr("shutil.copyfile", copy)
    assert ids_of(taken, asked, shared, tmp_path) == ["disk-full"]
    assert list((tmp_path / "dist").iterdir()) == []


class Broken(BaseHTTPRequestHandler):
    """Answers by the first folder of the address."""

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        if kind == "drop":
            # Each byte in time, and never the last.
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.2)
        elif kind == "error":
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


@pytest.mark.parametrize("kind", ["error", "loop", "page", "drop"])
def test_an_address_that_is_no_site(
    kind: str,
    broken: str,
    tree: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "_SECONDS_OF_LIST", 1.0)
    place = f"{broken}/{kind}/simple"
    assert taken(request(tree, disable="nccl"), place, tmp_path) is None
    said = capsys.readouterr().out
    assert said.count(f"torchwheel: no wheel came from {place.replace('me:secret', '***')}: ") == 1
    assert "secret" not in said
