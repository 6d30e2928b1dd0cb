"""A build under a limit of memory that its number of jobs does not fit into, as in a container."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.builds import clean_environment, make_tree, run, torchwheel, wrapper
from places import SUPPORT

HUNGRY = (SUPPORT / "backend" / "hungry.cpp").read_text(encoding="utf-8")


@pytest.fixture
def limited(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A control group with a limit of memory, in MiB; skips where none can be made."""
    group = Path("/sys/fs/cgroup/torchwheel-test")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("a control group with a limit of memory needs root")
    try:
        if not (group / "memory.max").exists():
            pytest.skip("control groups of version 2 do not limit memory here")
        (group / "memory.max").write_text(str(request.param << 20))
        yield group
    finally:
        group.rmdir()


def hungry_project(folder: Path, generation: str, parts: int) -> Path:
    tree = make_tree(generation, folder / "tree")
    for name in ("ReduceOps", "PointwiseOps"):
        with (tree / "aten/src/ATen/native/cpu" / f"{name}.cpp").open("a") as source:
            source.write(HUNGRY.replace("NAME", name).replace("PARTS", str(parts)))
    return wrapper(folder / "project", tree, **{"build-env": '"current"'})


def kills(group: Path) -> int:
    """How many programs of a control group the kernel ended for lack of memory."""
    counts = group / "memory.events"
    return int(dict(line.split() for line in counts.read_text().splitlines())["oom_kill"])


def build(group: Path, project: Path, environment: dict[str, str]) -> list[str]:
    """Build within the limit; what torchwheel itself says."""
    inside = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group)]
    command = [*inside, *torchwheel("build", project, "-o", project / "dist")]
    done = run(*command, cwd=project, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("torchwheel: ")]


# g++ 12 and later take about 290 MiB for 100,000 parts, and 1,350 for 540,000.
@pytest.mark.long
@pytest.mark.parametrize("limited", [480], indirect=True)
def test_a_build_goes_on_with_the_jobs_that_fit(tmp_path: Path, limited: Path) -> None:
    environment = clean_environment(tmp_path / "cache", CCACHE_DISABLE="1")
    said = build(limited, hungry_project(tmp_path, "setup.py", 100_000), environment)
    assert len([line for line in said if "memory ran out with 2 jobs" in line]) == 1
    assert any("done with 1 job" in line for line in said)
    assert kills(limited) > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("limited", "parts", "stopped"), [(480, 100_000, 0), (2560, 540_000, 1)], indirect=["limited"]
)
def test_without_a_number_of_jobs_compilers_share_the_memory(
    tmp_path: Path, limited: Path, parts: int, stopped: int
) -> None:
    """They wait where it is too little for what one usually takes; where these take more, one is stopped."""
    environment = clean_environment(tmp_path / "cache", CCACHE_DISABLE="1")
    del environment["MAX_JOBS"]
    said = build(limited, hungry_project(tmp_path, "scikit-build-core", parts), environment)
    assert f"{len(os.sched_getaffinity(0))} job" in said[0]
    assert [line for line in said if "ran out" in line] == []
    assert kills(limited) == 0
    (log,) = (tmp_path / "cache").glob("builds/*/build.log")
    assert len(re.findall(r"memory ran short: \S+ was stopped", log.read_text())) == stopped
