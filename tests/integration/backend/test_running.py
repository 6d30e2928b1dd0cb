"""Builds that meet the world: interrupted, ended, two at once, and in an environment full of settings."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backend.builds import (
    GENERATIONS,
    check,
    clean_environment,
    cmake_cache,
    compiled,
    log_of,
    logged,
    make_tree,
    run,
    snapshot,
)
from backend.builds import torchwheel as command

SETTINGS = ("--target=cpu", "--disable=tests,openmp,mpi", "-Cbuild-env=current", "-Cjobs=1")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree("scikit-build-core", tmp_path / "ein Baum")


def _heed_signals() -> None:
    """A shell that starts the tests in the background has them ignore an interrupt, and nohup the end of a terminal."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def started(tree: Path, tmp_path: Path, name: str) -> subprocess.Popen[str]:
    """A build in a process group of its own, as a terminal would have it."""
    return subprocess.Popen(
        command("build", tree, *SETTINGS, "-o", tmp_path / name),
        cwd=tmp_path,
        env=clean_environment(tmp_path / "cache"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
        preexec_fn=_heed_signals,
    )


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"{text!r} was never printed; {process.stderr.read() if process.stderr else ''}")


def running_below(folder: Path) -> list[str]:
    """Command lines of processes whose working directory is in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if folder in Path(os.readlink(process / "cwd")).parents:
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc, and at POSIX signals")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_ended_build_leaves_nothing_running_and_is_continued(
    tree: Path, tmp_path: Path, number: int, status: int
) -> None:
    before = snapshot(tree)
    build = started(tree, tmp_path, "aus")
    wait_for(build, "[4/")
    os.kill(build.pid, number)
    _, errors = build.communicate(timeout=60)
    assert (build.returncode, len(errors.splitlines())) == (status, 1)
    time.sleep(0.2)
    assert running_below(tmp_path / "cache") == []
    assert list((tmp_path / "aus").iterdir()) == []
    done = compiled(tmp_path / "cache")
    check(
        *command("build", tree, *SETTINGS, "-o", tmp_path / "aus"),
        cwd=tmp_path,
        env=clean_environment(tmp_path / "cache"),
    )
    rest = compiled(tmp_path / "cache")
    # Only the file that was being compiled may be compiled again.
    assert len(set(done) & set(rest)) <= 1
    assert len({*done, *rest}) > len(rest)
    assert len(list((tmp_path / "aus").glob("*.whl"))) == 1
    assert snapshot(tree) == before


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="starts a process group as POSIX does")
def test_of_two_builds_of_the_same_the_second_waits(tree: Path, tmp_path: Path) -> None:
    first = started(tree, tmp_path, "eins")
    wait_for(first, "[2/")
    second = started(tree, tmp_path, "zwei")
    output, errors = first.communicate(timeout=120)
    assert (first.returncode, errors) == (0, "")
    assert "waiting" not in output
    output, errors = second.communicate(timeout=120)
    assert (second.returncode, errors) == (0, "")
    assert f"torchwheel: waiting for another build of {tree} to end" in output.splitlines()
    assert compiled(tmp_path / "cache") == []
    one, two = (next((tmp_path / name).glob("*.whl")) for name in ("eins", "zwei"))
    assert one.name == two.name


@pytest.mark.parametrize("generation", GENERATIONS)
def test_ambient_settings_reach_the_build_resolved_only(generation: str, tmp_path: Path) -> None:
    """PyTorch 2.14 lets the environment beat -D, and CMAKE_ARGS comes after every -D."""
    tree = make_tree(generation, tmp_path / "tree")
    dump = tmp_path / "environment.txt"
    with (tree / "CMakeLists.txt").open("a", encoding="utf-8") as stream:
        stream.write(f'\nexecute_process(COMMAND ${{CMAKE_COMMAND}} -E environment OUTPUT_FILE "{dump}")\n')
    ambient = {
        "USE_DISTRIBUTED": "0",
        "USE_KINETO": "0",
        "BUILD_TEST": "1",
        "BUILD_NUMBER": "1234",
        "CMAKE_ARGS": "-DUSE_GLOO=OFF -DUSE_TENSORPIPE=OFF",
        "TORCH_CUDA_ARCH_LIST": "5.0",
        "DEBUG": "1",
        "MAX_JOBS": "7",
        "CMAKE_BUILD_PARALLEL_LEVEL": "9",
        "CMAKE_INSTALL_PREFIX": "/usr",
    }
    settings = ("--target=cpu", "-Cbuild-env=current", "--enable=distributed,gloo", "--disable=openmp")
    more = ("-Cbuild-type=Release", "-Cjobs=2", "--disable=tests")
    configure = command("build", "--configure-only", tree, *settings, *more)
    check(*configure, cwd=tmp_path, env=clean_environment(tmp_path / "cache") | ambient)
    inner = dict(re.findall(r"^(\w+)=(.*)$", dump.read_text(encoding="utf-8"), re.MULTILINE))
    taken = cmake_cache(tmp_path / "cache")
    on, off = {"ON", "1"}, {"OFF", "0"}
    assert {taken["USE_DISTRIBUTED"], taken["USE_GLOO"]} <= on
    assert {taken["BUILD_TEST"], taken["USE_KINETO"], taken["USE_TENSORPIPE"], taken["USE_CUDA"]} <= off
    assert taken["CMAKE_BUILD_TYPE"] == "Release"
    assert taken["CMAKE_INSTALL_PREFIX"] != "/usr"
    assert inner["MAX_JOBS"] == "2"
    assert inner.get("CMAKE_BUILD_PARALLEL_LEVEL", "2") == "2"
    expected = {"USE_DISTRIBUTED": on, "USE_KINETO": off, "BUILD_TEST": off}
    assert {name: inner[name] in values for name, values in expected.items()} == dict.fromkeys(expected, True)
    assert {"BUILD_NUMBER", "DEBUG", "TORCH_CUDA_ARCH_LIST", "CMAKE_INSTALL_PREFIX"}.isdisjoint(inner)
    assert "CMAKE_ARGS" not in inner or inner["CMAKE_ARGS"] == ""


def test_a_failed_build_tells_the_first_error(tree: Path, tmp_path: Path) -> None:
    source = tree / "c10" / "core" / "Device.cpp"
    source.write_text('#include "not/there.h"\n', encoding="utf-8")
    build = command("build", tree, *SETTINGS, "-o", tmp_path / "aus")
    answer = run(*build, cwd=tmp_path, env=clean_environment(tmp_path / "cache"))
    log = log_of(tmp_path / "cache")
    number, line = next(
        (number, line.strip()) for number, line in enumerate(logged(log), 1) if "fatal error" in line
    )
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    assert f"{source}:1:" in answer.stdout
    assert str(log.parent / "source" / "c10" / "core" / "Device.cpp:") not in answer.stdout
    first, *below = answer.stderr.splitlines()
    text = " ".join(" ".join(below).split())
    assert (str(tree) in first, "not/there.h" in first, "[inner-build-failed]" in first) == (True, True, True)
    assert f"Line {number} of {log}:" in text
    assert line.replace(str(log.parent / "source"), str(tree)) in text
    assert list((tmp_path / "aus").iterdir()) == []


@pytest.mark.parametrize(
    "generation", ["scikit-build-core", pytest.param("setup.py", marks=pytest.mark.long)]
)
def test_an_option_that_cmake_resets_stops_the_build_before_it_compiles(
    generation: str, tmp_path: Path
) -> None:
    """The tree's plain set() leaves ON in the cache."""
    tree = make_tree(generation, tmp_path / "ein Baum")
    avx = "-Cdefine.CAFFE2_COMPILER_SUPPORTS_AVX512_EXTENSIONS=OFF"
    settings = (tree, *SETTINGS, "--enable=fbgemm", avx)
    environment = clean_environment(tmp_path / "cache")
    answer = run(*command("build", *settings, "-o", tmp_path / "aus"), cwd=tmp_path, env=environment)
    assert (answer.returncode, "[cmake-took-other-value]" in answer.stderr) == (3, True)
    assert "USE_FBGEMM" in answer.stderr
    assert compiled(tmp_path / "cache") == []
    assert list((tmp_path / "aus").iterdir()) == []
    configure = command(
        "build", "--configure-only", *settings, "-Cskip-check=cmake-took-other-value", "--json"
    )
    document = json.loads(check(*configure, cwd=tmp_path, env=environment))
    assert document["unproved"] == {"USE_FBGEMM": "OFF"}
    assert document["proved"] > 3
