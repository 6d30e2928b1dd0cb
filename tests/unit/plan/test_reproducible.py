"""What a plan is where SOURCE_DATE_EPOCH is set, and what the build manifest then leaves out."""

from __future__ import annotations

import shlex

from plan.planning import WINDOWS, Planner, variables
from torchwheel.engine.tree_wheel import describe_provenance, is_of_plan
from torchwheel.plan.output import ONLY_HOW, decisions_document
from torchwheel.reporting.errors import Problem, error, note, warning
from torchwheel.settings.known_keys import all_keys

CPU = {"target": "cpu"}
PROBLEM = Problem(id="some", what="the disk has 3 GB left", remedy="make room")


def test_it_has_a_folder_of_its_own_and_compilers_leave_paths_out(plan: Planner) -> None:
    plain, made = plan(CPU), plan(CPU, reproducible=True)
    assert plain.fingerprint != made.fingerprint
    assert plan(CPU, reproducible=True, compiler_cache="sccache").maps_paths
    assert not plan(CPU, reproducible=True, host=WINDOWS).maps_paths
    assert variables(plain) == variables(made)


def test_what_setuptools_compiles_holds_no_path_either(legacy_plan: Planner) -> None:
    asked = {**CPU, "package-version": "2.6.0"}
    made = legacy_plan(asked, reproducible=True)
    flag = shlex.quote(f"-ffile-prefix-map={made.folders.source}=/pytorch")
    assert variables(made)["CPPFLAGS"] == flag
    assert "CPPFLAGS" not in variables(legacy_plan(asked))
    more = legacy_plan({**asked, "env.CPPFLAGS": "-DMINE"}, reproducible=True)
    assert variables(more)["CPPFLAGS"] == "-DMINE " + shlex.quote(
        f"-ffile-prefix-map={more.folders.source}=/pytorch"
    )
    assert "CPPFLAGS" not in variables(legacy_plan(asked, reproducible=True, host=WINDOWS))


def test_how_a_wheel_is_built_is_not_in_its_manifest(plan: Planner) -> None:
    assert set(all_keys()) >= ONLY_HOW
    one = plan({**CPU, "jobs": "1", "env.CCACHE_DIR": "/a"}, reproducible=True, compiler_cache="ccache")
    plain = plan(CPU)
    two = plan(
        {**CPU, "jobs": "2", "build-dir": str(plan.folder / "b"), "compiler-cache": "none"}, reproducible=True
    )
    for made in (one, two, plain):
        made.folders.cmake_cache.parent.mkdir(parents=True)
        launcher = "CMAKE_CXX_COMPILER_LAUNCHER:STRING=ccache\n" if made is one else ""
        made.folders.cmake_cache.write_text(f"USE_CUDA:BOOL=0\n{launcher}", encoding="utf-8")
        made.folders.cmake_values.write_text('{"USE_CUDA": "0"}', encoding="utf-8")
    said = describe_provenance(one)
    assert said == describe_provenance(two)
    assert "fingerprint" not in said
    assert is_of_plan(said, two)
    assert not is_of_plan(said, plan({**CPU, "disable": "mpi"}, reproducible=True))
    assert {"fingerprint", "options"} <= set(describe_provenance(plain))


def test_what_was_said_of_the_machine_is_not_in_the_manifest(plan: Planner) -> None:
    settings = plan({**CPU, "skip-check": "some"}).settings
    findings = [error(PROBLEM), warning(PROBLEM), note(PROBLEM)]
    assert len(decisions_document(settings, findings)["findings"]) == 3
    kept = decisions_document(settings, findings, reproducible=True)
    assert [one["id"] for one in kept["findings"]] == kept["skipped_checks"] == ["some"]
