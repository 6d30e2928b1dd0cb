"""A build under a limit of memory that its number of jobs does not fit into, as in a container."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.builds import GENERATIONS, clean_environment, make_tree, run, torchwheel, wrapper

LIMIT_MIB = 480
# g++ 12 and later take about 290 MiB for this.
HUNGRY = """
#include <utility>
namespace {
template <int I> struct Part { int values[I % 7 + 1]; };
template <class> struct Whole;
template <int... I> struct Whole<std::integer_sequence<int, I...>> {
  static int first() { int sizes[] = {int(sizeof(Part<I>))...}; return sizes[0]; }
};
}
int hungry_NAME() { return Whole<std::make_integer_sequence<int, 100000>>::first(); }
"""


@pytest.fixture
def limited() -> Iterator[Path]:
    """A control group with a limit of memory; skips where none can be made."""
    mount = Path("/sys/fs/cgroup")
    for folder, limit in ((mount / "memory", "memory.limit_in_bytes"), (mount, "memory.max")):
        group = folder / "torchwheel-test"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / limit).exists():
                (group / limit).write_text(str(LIMIT_MIB << 20))
                yield group
                return
        finally:
            group.rmdir()
    pytest.skip("a control group with a limit of memory needs root")


@pytest.mark.compiles
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_build_goes_on_with_the_jobs_that_fit(generation: str, tmp_path: Path, limited: Path) -> None:
    tree = make_tree(generation, tmp_path / "tree")
    for name in ("ReduceOps", "PointwiseOps"):
        with (tree / "aten/src/ATen/native/cpu" / f"{name}.cpp").open("a") as source:
            source.write(HUNGRY.replace("NAME", name))
    project = wrapper(tmp_path / "project", tree, **{"build-env": '"current"'})
    environment = clean_environment(tmp_path / "cache", CCACHE_DISABLE="1")
    inside = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(limited)]
    command = [*inside, *torchwheel("build", project, "-o", tmp_path)]
    done = run(*command, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("torchwheel: ")][-3:]
    assert re.fullmatch(
        r"torchwheel: memory ran out with 2 jobs: the system killed cc1plus for lack of memory, at "
        r"(ReduceOps|PointwiseOps)\.cpp; the kernel has ended \d programs? for that reason",
        said[0],
    )
    assert said[1:] == [
        "torchwheel: going on with 1 job for what is left",
        "torchwheel: done with 1 job; -C jobs=1 begins so the next time",
    ]
