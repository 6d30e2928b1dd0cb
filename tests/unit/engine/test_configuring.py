"""What a configuring found: kept only where it finished, and not less than the one before."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from backend.builds import make_tree
from places import MINITORCH
from put import append
from refusals import error_of, ids_of
from torchwheel.engine.configuring import Configured, Configuring, of_tree
from torchwheel.engine.staging import locked_folders
from torchwheel.plan.build_plan import Define, Plan
from torchwheel.plan.make import make_plan
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.settings import Layer
from torchwheel.survey import BuildRequest, survey

FOUND = {
    "USE_OPENMP:BOOL": "ON",
    "OpenMP_CXX_FLAGS:STRING": "-fopenmp",
    "HAVE_SHM_OPEN:INTERNAL": "1",
    "DOXYGEN_EXECUTABLE:FILEPATH": "/usr/bin/doxygen",
    "CMAKE_PROJECT_VERSION_PATCH:STATIC": "1",
    "NUMA_LIBRARY:FILEPATH": "/usr/lib/libnuma.so",
    "FLAGS:STRING": "-O2",
    "USE_MPI:BOOL": "OFF",
}


def planned(folder: Path, **config: str) -> Plan:
    environment = {"TORCHWHEEL_CACHE_DIR": str(folder), "PATH": "/usr/bin"}
    plan = make_plan(survey(BuildRequest(MINITORCH, {"target": "cpu"} | config, environment)))
    (plan.folders.build / "CMakeFiles" / "3.31.6").mkdir(parents=True, exist_ok=True)
    return plan


def cache_of(plan: Plan, found: dict[str, str]) -> None:
    defines = {f"{define.name}:STRING": define.value for define in plan.defines}
    text = "".join(f"{name}={value}\n" for name, value in (defines | found).items())
    plan.folders.cmake_cache.write_text(text, encoding="utf-8")


def values_of(plan: Plan, **others: str) -> None:
    """The final values, as CMake writes them through torchwheel's file."""
    values = {define.name: define.value for define in plan.defines} | others
    plan.folders.cmake_values.write_text(json.dumps(values), encoding="utf-8")


def configure(plan: Plan, found: dict[str, str], probes: str = "", **values: str) -> None:
    """What a run of CMake leaves and prints."""
    watch = of_tree(plan).watch(stop_after=True)
    cache_of(plan, found)
    values_of(plan, **{name.partition(":")[0]: value for name, value in found.items()} | values)
    append(plan.folders.build / "CMakeFiles" / "CMakeConfigureLog.yaml", probes)
    with pytest.raises(Configured):
        watch(f"-- Build files have been written to: {plan.folders.build}\n")


def test_a_cache_is_used_again_only_as_a_finished_configuring_left_it(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    configure(plan, FOUND)
    assert not of_tree(plan).drop_stale_cache()
    assert plan.folders.cmake_cache.is_file()
    # A second run of CMake saved what it had found, and was killed while it generated.
    cache_of(plan, FOUND | {"OpenMP_CXX_FLAGS:STRING": "NOTFOUND"})
    (plan.folders.build / "CMakeFiles" / "torch.dir").mkdir()
    assert of_tree(plan).drop_stale_cache()
    assert not plan.folders.cmake_cache.exists()
    left = sorted(path.name for path in (plan.folders.build / "CMakeFiles").iterdir())
    assert left == ["CMakeConfigureLog.yaml", "torch.dir"]


def test_a_copied_build_directory_is_configured_and_compiled_anew(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    for elsewhere in (False, True):
        found = {"CMAKE_CACHEFILE_DIR:INTERNAL": str(tmp_path if elsewhere else plan.folders.build)}
        configure(plan, found)
        logs = [plan.folders.build / name for name in (".ninja_log", ".ninja_deps", "build.ninja")]
        for log in logs:
            log.touch()
        assert of_tree(plan).drop_stale_cache() is elsewhere
        assert [plan.folders.cmake_cache.exists(), *(log.exists() for log in logs)] == [not elsewhere] * 4


def test_a_cache_that_nobody_saw_being_finished_is_not_used(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    cache_of(plan, FOUND)
    assert of_tree(plan).drop_stale_cache()
    assert not of_tree(plan).drop_stale_cache()


def test_a_cache_whose_values_are_other_ones_is_not_used(tmp_path: Path) -> None:
    """A plain set() of the tree's, which was skipped the last time, or a file that is damaged since."""
    plan = planned(tmp_path, enable="mpi", **{"skip-check": "cmake-took-other-value"})
    for damage in (False, True):
        configure(plan, FOUND | {"USE_MPI:BOOL": "ON"}, USE_MPI="ON" if damage else "OFF")
        if damage:
            assert not of_tree(plan).drop_stale_cache()
            plan.folders.cmake_values.write_text("{", encoding="utf-8")
        assert of_tree(plan).drop_stale_cache()


def test_a_cache_whose_configuring_the_plan_refused_is_not_used(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    other = FOUND | {f"{plan.defines[0].name}:STRING": "another"}
    assert ids_of(configure, plan, other) == ["cmake-took-other-value"]
    assert of_tree(plan).drop_stale_cache()


def test_features_that_are_lost_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    plan = planned(tmp_path)
    # A plain set() of the tree's leaves the cache as it is.
    plain = {"USE_KINETO:BOOL": "ON"}
    configure(plan, FOUND | plain)
    lost = {
        "USE_OPENMP:BOOL": "OFF",
        "OpenMP_CXX_FLAGS:STRING": "NOTFOUND",
        "HAVE_SHM_OPEN:INTERNAL": "",
        "DOXYGEN_EXECUTABLE:FILEPATH": "DOXYGEN_EXECUTABLE-NOTFOUND",
        "CMAKE_PROJECT_VERSION_PATCH:STATIC": "0",
        "NUMA_LIBRARY:FILEPATH": "NUMA_LIBRARY-NOTFOUND",
        "FLAGS:STRING": "",
    }
    for _ in range(2):
        error = error_of(configure, plan, FOUND | plain | lost, USE_KINETO="OFF")
        assert {problem.id for problem in error.problems} == {"feature-lost"}
        said = [problem.what for problem in error.problems]
        assert said == [
            f"the last configuring of this build had {name}={before}, and this one has '{now}'"
            for name, before, now in (
                ("HAVE_SHM_OPEN", "1", ""),
                ("NUMA_LIBRARY", "/usr/lib/libnuma.so", "NUMA_LIBRARY-NOTFOUND"),
                ("OpenMP_CXX_FLAGS", "-fopenmp", "NOTFOUND"),
                ("USE_KINETO", "ON", "OFF"),
                ("USE_OPENMP", "ON", "OFF"),
            )
        ]
        assert of_tree(plan).drop_stale_cache()
    assert capsys.readouterr().out == ""
    configure(planned(tmp_path, **{"skip-check": "feature-lost"}), FOUND | plain | lost, USE_KINETO="OFF")
    assert capsys.readouterr().out.count("torchwheel: error (skipped by skip-check):") == 5
    configure(plan, FOUND | plain | lost, USE_KINETO="OFF")


def test_what_was_asked_for_otherwise_is_not_lost(tmp_path: Path) -> None:
    configure(planned(tmp_path), FOUND)
    changed = planned(tmp_path, disable="openmp")
    configure(changed, {name: value for name, value in FOUND.items() if "OPENMP" not in name})


def test_what_is_asked_for_by_name_is_no_feature_to_be_lost(tmp_path: Path) -> None:
    """That CMake did not take it is said by cmake-took-other-value, which one may skip."""
    configure(planned(tmp_path, enable="mpi"), FOUND | {"USE_MPI:BOOL": "ON"})
    plan = planned(tmp_path, enable="mpi", **{"skip-check": "cmake-took-other-value"})
    configure(plan, FOUND | {"USE_MPI:BOOL": "OFF"})


@pytest.mark.parametrize(
    "line",
    [
        "        fatal error: error writing to /tmp/ccX.s: No space left on device",
        "        as: CMakeFiles/x.o: Auf dem Gerät ist kein Speicherplatz mehr verfügbar",
        "        g++: fatal error: Killed signal terminated program cc1plus",
        "        cc1plus: virtual memory exhausted: Cannot allocate memory",
        "        collect2: fatal error: ld terminated with signal 25 [File size limit exceeded]",
        "        mold: failed to write to an output file. Disk full?",
        "        /usr/bin/ld: cannot open output file cmTC_1: Read-only file system",
        # What earlyoom sends first, and a limit of memory (ulimit -v).
        "        g++: fatal error: Terminated signal terminated program cc1plus",
        "        cc1plus: error while loading shared libraries: libgmp.so.10: failed to map segment from shared object",
    ],
)
def test_a_probe_that_the_machine_stopped_has_found_nothing(tmp_path: Path, line: str) -> None:
    plan = planned(tmp_path)
    configure(plan, FOUND, probes="error: no such header\n")
    error = error_of(configure, plan, FOUND, probes=f"{line}\n")
    log = plan.folders.build / "CMakeFiles" / "CMakeConfigureLog.yaml"
    assert error.render() == (Problem.of("configuring-disturbed", origin=log, line=line.strip()).render())
    # What an earlier configuring met is over.
    configure(plan, FOUND, probes="error: no such header\n")


def test_an_option_that_cmake_took_otherwise_is_told_with_both_values(tmp_path: Path) -> None:
    asked = Define("USE_CUDNN", "ON", Layer.CONFIG, "-C define.USE_CUDNN")
    plan = replace(planned(tmp_path), defines=(asked,))
    plan.folders.cmake_cache.write_text("USE_CUDNN:BOOL=ON\n", encoding="utf-8")
    values_of(plan, USE_CUDNN="OFF")
    assert error_of(of_tree(plan).check_values).render() == (
        Problem.of(
            "cmake-took-other-value",
            origin=plan.folders.cmake_values,
            name="USE_CUDNN",
            value="ON",
            origin_of_value="-C define.USE_CUDNN",
            found="OFF",
        ).render()
    )


def test_cmake_looks_again_where_its_files_are_others(tmp_path: Path) -> None:
    """An option keeps the default that it had when CMake first read it; so does what a package's own file said."""
    source, build, package = tmp_path / "source", tmp_path / "bu ild", tmp_path / "lib" / "fmt config.cmake"
    for folder in (source, build, package.parent):
        folder.mkdir()
    lists, project, own = source / "CMakeLists.txt", source / "pyproject.toml", build / "made.cmake"
    for file in (lists, project, package, own):
        file.touch()
    named = " ".join(str(file).replace(" ", "$ ") for file in (lists, package, own, tmp_path / "lib"))
    rerun = f"build build.ninja: RERUN_CMAKE | made.cmake {named} ../gone.cmake\n  pool = console\n"
    (build / "build.ninja").write_text(f"rule RERUN_CMAKE\n  command = cmake\n\n{rerun}", encoding="utf-8")
    configuring = Configuring(tmp_path, build, source, tmp_path / "log", (), "flags")

    def finish() -> None:
        configuring.cache.write_text("USE_X:BOOL=ON\n", encoding="utf-8")
        configuring.watch()(f"-- Build files have been written to: {build}\n")

    finish()
    own.write_text("set(X 1)\n", encoding="utf-8")
    (tmp_path / "lib" / "new").touch()
    os.utime(lists, (1, 1))
    assert not configuring.drop_stale_cache()
    assert configuring.last_found() == {"USE_X": "ON"}
    for file in (lists, project, package):
        file.write_text("option(USE_X OFF)\n", encoding="utf-8")
        # What its author has changed in the sources is meant.
        assert configuring.last_found() == ({"USE_X": "ON"} if file == package else {})
        assert configuring.drop_stale_cache()
        finish()
    package.unlink()
    assert configuring.drop_stale_cache()
    finish()
    (tmp_path / "gone.cmake").touch()
    assert configuring.drop_stale_cache()
    finish()
    other = replace(configuring, asked="other flags")
    assert other.last_found() == {}
    assert other.drop_stale_cache()


@pytest.mark.parametrize("way", ["-C", "variable", "project", "preset"])
def test_cmake_looks_again_where_its_arguments_name_files(way: str, tmp_path: Path) -> None:
    """It remembers what they said, and watches neither them nor what they include."""
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    config, environment = {"target": "cpu"}, {"TORCHWHEEL_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin"}
    file = tmp_path / "my file.cmake"
    if way == "-C":
        config["cmake.args"] = f"-C;{file}"
    elif way == "variable":
        environment["CMAKE_ARGS"] = f"'-C{file}'"
    elif way == "project":
        file = tree / "cmake" / "initial.cmake"
        append(tree / "pyproject.toml", '\n[tool.scikit-build.cmake]\nargs = ["-Ccmake/initial.cmake"]\n')
    else:
        config["cmake.args"] = "--preset=mine"
        file = tree / "CMakeUserPresets.json"
    said = []
    for _ in range(2):
        file.write_text("one", encoding="utf-8")
        plan = make_plan(survey(BuildRequest(tree, config, environment)))
        with locked_folders(plan, environment):
            said.append(plan.folders.cmake_cache.exists())
            (plan.folders.build / "CMakeFiles").mkdir(parents=True, exist_ok=True)
            configure(plan, FOUND)
    assert said == [False, False]


def test_cmake_configures_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(tmp_path)
    usage = shutil.disk_usage(plan.folders.root)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: usage._replace(free=4096) if path == plan.folders.root else usage
    )
    with pytest.raises(TorchwheelError, match="CMake has configured on a disk that is full"):
        configure(plan, FOUND)
    assert of_tree(plan).drop_stale_cache()


@pytest.mark.parametrize("text", [None, "", "[]", '{"USE_CUDA": "ON"'])
def test_values_that_cmake_has_not_written_whole_prove_nothing(tmp_path: Path, text: str | None) -> None:
    plan = planned(tmp_path)
    cache_of(plan, FOUND)
    if text is not None:
        plan.folders.cmake_values.write_text(text, encoding="utf-8")
    assert ids_of(of_tree(plan).check_values) == ["no-cmake-values"]


def test_cmake_says_that_it_has_written_its_files_and_the_cache_is_not_there(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert str(
        error_of(of_tree(plan).watch(), f"-- Build files have been written to: {plan.folders.build}\n")
    ) == (
        Problem.of(
            "no-cmake-cache",
            origin=plan.folders.build,
            what="CMake has configured, but there is no CMakeCache.txt",
            log=plan.folders.log,
        ).render()
    )
