"""Failed, succeeded or unknown: what a build survives is neither a cause nor an alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.diagnosis.endings import Ending, read_endings
from torchwheel.diagnosis.failures import Outcome
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.system.toml import read_toml
from unit.diagnosis.test_logs import FAILURES, expected_id, text_of

SURVIVED = {
    name: row["lines"].lstrip("\n") + "\n"
    for name, row in read_toml(Path(__file__).with_name("survived.toml")).items()
}
NEAR = {"cl-not-found.nmake.log", "generator-takes-no-toolset.log", "shm-manager-link.seed-002.log"}
"""The first line of a step's end is nearer to what stands above them than their own cause."""
NEAR |= {"download-refused.curl.log"}
"""A script may go on after this cause, too, so that of two such the first counts."""


@pytest.mark.parametrize("name", SURVIVED)
def test_what_a_build_survives_is_not_the_cause_of_a_later_failure(name: str) -> None:
    changed = {}
    for path in FAILURES:
        cause = diagnose([(SURVIVED[name] + text_of(path)).encode()]).cause
        if cause is None or cause.entry.id != expected_id(path):
            changed[path.name] = cause and (cause.entry.id, cause.line.number)
    assert changed.keys() <= NEAR, changed


@pytest.mark.parametrize("ending", read_endings(), ids=lambda ending: ending.example)
def test_what_a_build_survives_is_no_failure_before_any_kind_of_success(ending: Ending) -> None:
    found = {
        name: diagnose([f"{lines}running build_ext\n{ending.example}\n".encode()]).outcome
        for name, lines in SURVIVED.items()
    }
    assert found == dict.fromkeys(SURVIVED, Outcome.SUCCEEDED)


@pytest.mark.parametrize("ending", read_endings(), ids=lambda ending: ending.example)
@pytest.mark.parametrize(
    "after",
    ["[2/9] Building CXX object a.o", "Building wheel for torch (setup.py): started", "$ python serve.py"],
)
def test_work_that_began_after_a_success_and_has_no_end_is_not_known(ending: Ending, after: str) -> None:
    assert diagnose([f"{ending.example}\n{after}\n".encode()]).outcome is Outcome.UNKNOWN


def test_an_error_before_a_part_of_the_work_that_went_well_is_a_failure() -> None:
    error = "a.cpp:3:1: error: expected ';' at end of input\n"
    for ending in read_endings():
        outcome = diagnose([f"{error}{ending.example}\n".encode()]).outcome
        assert outcome is (Outcome.SUCCEEDED if ending.settles else Outcome.FAILED), ending.example


def test_the_file_cache_that_slurm_counts_is_no_failure_of_a_job_that_ended_well() -> None:
    counted = "slurmstepd: error: Exceeded step memory limit at some point.\n"
    assert diagnose([f"Successfully installed x-1.0\n{counted}".encode()]).outcome is Outcome.SUCCEEDED
    failed = diagnose([f"[3/9] Building CXX object a.o\n{counted}".encode()]).cause
    assert failed is not None
    assert failed.entry.id == "killed"


def test_a_harmless_line_after_the_last_exception_is_no_success() -> None:
    exception = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nKeyError: 'x'\n"
    assert diagnose([f"{exception}$ python --version\nPython 3.12.4\n".encode()]).outcome is Outcome.FAILED


NO_SUCCESS = """\
Build was not successful
build unsuccessful
0 tests succeeded
== Build: 3 succeeded, 1 failed
-- Performing Test HAVE_FLAG - Success
Successfully uninstalled torch-2.9.1
Build succeeded for : 12.0.0.
\u00d7 pip subprocess to install build dependencies did not run successfully.
copying build/lib/k/_C.so -> build/bdist.linux-x86_64/wheel/./k
make[1]: Nothing to be done for 'all'.
model could not be saved
log saved to /tmp/build.log
""".splitlines()
SUCCESS = """\
BUILD SUCCESSFUL in 3s
** BUILD SUCCEEDED **
nox > Session tests was successful.
========== Build: 1 succeeded, 0 failed, 0 up-to-date, 0 skipped ==========
copying build/lib.linux-x86_64-cpython-312/k/_C.so -> k
removing build\\bdist.win-amd64\\wheel
Wrote: /root/rpmbuild/RPMS/x86_64/python3-torch-2.9.1-1.x86_64.rpm
localhost : ok=4 changed=1 unreachable=0 failed=0
make: Nothing to be done for 'all'.
INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)
""".splitlines()


def test_words_of_success_end_a_log_well_unless_they_deny_it() -> None:
    ended = [
        line
        for line in (*NO_SUCCESS, *SUCCESS)
        if diagnose([f"running build_ext\n{line}\n".encode()]).outcome is Outcome.SUCCEEDED
    ]
    assert ended == SUCCESS
