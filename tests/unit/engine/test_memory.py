"""Memory that runs out: when another attempt is made, with how many jobs, and what is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refusals import error_of, ids_of
from torchwheel.engine import session
from torchwheel.engine.process import ProcessFailed, explained_failure
from torchwheel.engine.session import with_fewer_jobs
from torchwheel.reporting.errors import Problem, TorchwheelError

KILLED = "FAILED: lib/Sorting.cpp.o\nc++ -c Sorting.cpp\nc++: fatal error: Killed signal terminated program cc1plus\n"
TOLD = "a.cpp: fatal error: cannot allocate memory\n"
WRONG = "a.cpp:3:5: error: nobody knows this\n"


class Machine:
    """A build whose attempts with more jobs than fit fail, and the kernel's count of what it ended."""

    def __init__(self, log: Path, fitting: int, output: str, counted: bool = True) -> None:
        self.log, self.fitting, self.output, self.counted = log, fitting, output, counted
        self.kills: int | None = 7
        self.tried: list[int] = []
        log.write_text("g++: fatal error: Killed signal terminated program as\n")

    def build(self, jobs: int) -> str:
        self.tried.append(jobs)
        if jobs <= self.fitting:
            return "torch.whl"
        start = self.log.stat().st_size
        with self.log.open("a") as stream:
            stream.write(f"$ python\n{self.output}")
        if self.counted and self.kills is not None:
            self.kills += 1
        failure = ProcessFailed("python", 1, self.log, start)
        problem = explained_failure("inner-build-failed", "setup.py failed", self.log, "pytorch", start)
        raise TorchwheelError(problem) from failure


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "build.log"


@pytest.fixture
def machine(request: pytest.FixtureRequest, log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine(log, *request.param)
    monkeypatch.setattr(session, "memory_kills", lambda: made.kills)
    yield made


@pytest.mark.parametrize(
    ("machine", "tried"),
    [
        ((2, KILLED), [9, 4, 2]),
        # What the compiler says needs no count of the kernel's; a process of which nothing is said does.
        ((1, TOLD, False), [2, 1]),
        ((1, ""), [2, 1]),
    ],
    indirect=["machine"],
)
def test_jobs_are_halved_until_they_fit(machine: Machine, tried: list[int]) -> None:
    assert (with_fewer_jobs(machine.build, tried[0]), machine.tried) == ("torch.whl", tried)


@pytest.mark.parametrize("machine", [(1, KILLED, False), (1, WRONG, True), (1, "", False)], indirect=True)
def test_other_failures_are_failures(machine: Machine) -> None:
    assert (ids_of(with_fewer_jobs, machine.build, 4), machine.tried) == (["inner-build-failed"], [4])


@pytest.mark.parametrize("machine", [(1, KILLED)], indirect=True)
def test_a_system_that_counts_no_ends_shows_nothing(machine: Machine) -> None:
    machine.kills = None
    with pytest.raises(TorchwheelError):
        with_fewer_jobs(machine.build, 4)
    assert machine.tried == [4]


@pytest.mark.parametrize("machine", [(0, KILLED)], indirect=True)
def test_one_job_that_is_too_many_is_an_error(machine: Machine, log: Path) -> None:
    error = error_of(with_fewer_jobs, machine.build, 2)
    assert machine.tried == [2, 1]
    (problem,) = error.problems
    evidence = (
        "the system killed cc1plus for lack of memory, at Sorting.cpp; "
        "the kernel has ended 1 program for that reason"
    )
    assert problem == Problem.of("out-of-memory", project="pytorch", evidence=evidence, lines=problem.why)
    assert f"Line 9 of {log}:" in problem.why
