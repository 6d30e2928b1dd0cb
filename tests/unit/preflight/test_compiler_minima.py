"""The host compiler against every release: a compiler just old enough to be refused, and the least that is taken."""

from __future__ import annotations

import pytest

from preflight.contexts import context, tree
from torchwheel.host.machine import Compiler
from torchwheel.preflight.registry import Passed, Violation, read_rules
from torchwheel.preflight.report import CHECKS

RULE = next(rule for rule in read_rules().values() if rule.id == "host-compiler-too-old")


def refusal_of(version: str, kind: str, compiler_version: str) -> tuple[str, str, str] | None:
    """What doctor says of a compiler that it refuses, why, and the remedy; None for one that it accepts."""
    path = {"gcc": "/usr/bin/g++", "clang": "/usr/bin/clang++", "msvc": "cl.exe"}[kind]
    found = context(
        {"target": "cpu"}, source=tree(version), compiler=Compiler("cxx", kind, path, compiler_version, kind)
    )
    answer = CHECKS[RULE.id](found)
    if isinstance(answer, Violation):
        problem = RULE.finding(answer).problem
        return problem.what, problem.why, problem.remedy
    assert isinstance(answer, Passed)
    return None


@pytest.mark.parametrize(
    ("version", "gcc", "clang", "msvc"),
    [
        ("2.0.1", "6.5.0 7.1.0", "4.0.1 5.0.0", "19.0.24215 19.11.25503"),
        ("2.5.1", "9.3.0 9.4.0", "8.0.1 9.0.0", "19.16.27023 19.20.27508"),
        ("2.14.1", "11.2.0 11.3.0", "15.0.7 16.0.0", "19.28.29915 19.29.30133"),
        ("2.15.0", "11.2.0 11.3.0", "15.0.7 16.0.0", "19.28.29915 19.29.30133"),
    ],
)
def test_what_is_refused_and_what_is_taken(version: str, gcc: str, clang: str, msvc: str) -> None:
    for kind, pair in (("gcc", gcc), ("clang", clang), ("msvc", msvc)):
        refused, taken = pair.split()
        assert refusal_of(version, kind, refused), (version, kind)
        assert refusal_of(version, kind, taken) is None, (version, kind)


def test_where_a_release_states_none_its_standard_is_the_reason() -> None:
    assert refusal_of("2.12.1", "clang", "9.0.1") == (
        "Clang 9.0.1 (/usr/bin/clang++) is too old for PyTorch 2.12.1, which needs 10 or later",
        "its sources are C++20, which clang knows from 10 on",
        "install clang 10 or later",
    )
    assert refusal_of("2.15.0", "msvc", "19.28.29915") == (
        "MSVC 19.28.29915 (cl.exe) is too old for PyTorch 2.15.0, which needs 19.29 or later",
        "its sources are C++20, which msvc knows from 19.29 on",
        "install msvc 19.29 or later",
    )
