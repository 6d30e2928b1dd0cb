"""What changes would save, reckoned from given measurements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from extension.profile.profiles import KERNEL, compile_of, text_of
from torchwheel.extension.model import Language
from torchwheel.extension.profile.invocation import Invocation
from torchwheel.extension.profile.measure import Measured, Rules, find_savings, shipped_rules
from torchwheel.extension.profile.model import SourceProfile, Usage
from torchwheel.extension.profile.sandbox import Finished, Sandbox

CXX = Invocation("gcc", "c++", ("-O3",), Language.CXX)
CUDA = Invocation("nvcc", "nvcc", ("-O3", "-x", "cu"), Language.CUDA)
STABLE = ("torch/csrc/stable/library.h", "torch/csrc/stable/tensor.h", "torch/csrc/stable/ops.h")
NARROW = ("torch/library.h", "ATen/core/Tensor.h", "ATen/ops/empty_like.h")

SECONDS = {
    ("c++", STABLE): 1.0,
    ("c++", (*STABLE, "vector.h")): 1.5,
    ("c++", NARROW): 3.0,
    ("c++", (*NARROW, "vector.h")): 3.5,
    ("c++", ("torch/extension.h", "vector.h")): 14.0,
    ("c++", ("torch/extension.h", "vector.h", "string.h")): 14.5,
    ("nvcc", ()): 0.0,
    ("nvcc -x c++", STABLE): 1.25,
}


class Known(Sandbox):
    """A sandbox where what would be measured is known: the figures are given, the reckoning is the real one."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path, tmp_path, {}, lambda what: None)
        self.ran: list[tuple[str, ...]] = []

    def header_seconds(self, invocation: Invocation, headers: tuple[str, ...]) -> float | None:
        host_only = invocation.family == "nvcc" and invocation.language is Language.CXX
        if host_only:
            assert "-x" not in invocation.flags
        return SECONDS.get((f"{invocation.program}{' -x c++' if host_only else ''}", headers))

    def run(self, command, what: str, folder: str = ".") -> Finished:  # type: ignore[no-untyped-def]
        self.ran.append(tuple(command))
        return Finished(0, "", Usage(12.0, 12.0))


def cxx(
    name: str, *, invocation: Invocation = CXX, cost: float = 20.0, headers: float = 14.0, **sizes: int
) -> Measured:
    text = text_of(**(sizes or {"torch__extension": 90, "vector": 1}))
    profile = SourceProfile(compile_of(name), Usage(cost, cost), (), text, headers, 1)
    return Measured(invocation, profile)


Reckoned = list[tuple[str, float, tuple[str, ...], str]]


def reckoned(tmp_path: Path, *measured: Measured, only: str = "") -> Reckoned:
    rules = shipped_rules()
    if only:
        rules = Rules(
            tuple(rule for rule in rules.rules if rule.id == only), rules.least_part, rules.least_seconds
        )
    found = find_savings(measured, rules, Known(tmp_path))
    return [(s.rule.id, round(s.seconds, 9), s.sources, s.reckoning) for s in found]


def test_other_headers_in_cxx(tmp_path: Path) -> None:
    stable, narrow = ", ".join(STABLE), ", ".join(NARROW)
    assert reckoned(tmp_path, cxx("a.cpp")) == [
        ("stable-abi", 12.5, ("a.cpp",), f"headers take 14.0 s now and 1.5 s with {stable}"),
        ("narrow-headers", 10.5, ("a.cpp",), f"headers take 14.0 s now and 3.5 s with {narrow}"),
    ]


def test_stable_headers_are_left_alone(tmp_path: Path) -> None:
    assert reckoned(tmp_path, cxx("a.cpp", headers=1.0, torch__csrc__stable__library=5)) == []


def test_headers_that_do_not_compile_alone_are_not_reckoned_with(tmp_path: Path) -> None:
    one = cxx("a.cpp")
    assert reckoned(tmp_path, replace(one, profile=replace(one.profile, headers_seconds=None))) == []
    assert reckoned(tmp_path, cxx("a.cpp", torch__extension=90, odd=1)) == []
    assert reckoned(tmp_path, replace(one, profile=replace(one.profile, text=None))) == []


def test_cuda_sources_pay_for_the_cxx_source_that_takes_over(tmp_path: Path) -> None:
    assert reckoned(tmp_path, Measured(CUDA, KERNEL)) == [
        (
            "device-code-without-torch",
            75.0 - 1.25,
            ("csrc/kernel.cu",),
            f"headers take 75.0 s now and 0.0 s without them; one C++ source for each with {', '.join(STABLE)} adds "
            "1.2 s",
        ),
        (
            "single-pass",
            (2.0 + 17.0 + 2.0 + 19.0) / 2,
            ("csrc/kernel.cu",),
            "all but one of the runs of cicc and of the preprocessor before it, as nvcc timed them",
        ),
    ]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, [(3 * 14.0 - 14.0, "headers of 3 sources take 42.0 s one by one, and 14.0 s in one file")]),
        (4, [(4 * 14.0 - 2 * 14.0, "headers of 4 sources take 56.0 s one by one, and 14.0 s in each of 2")]),
        (1, []),
    ],
)
def test_unity(tmp_path: Path, count: int, expected: list[tuple[float, str]]) -> None:
    sources = [cxx(f"{number}.cpp") for number in range(count)]
    found = reckoned(tmp_path, *sources, only="unity")
    assert [(seconds, text) for _, seconds, _, text in found] == expected


def test_unity_reads_all_headers_of_all_its_sources(tmp_path: Path) -> None:
    other = cxx("b.cpp", headers=14.1, torch__extension=90, string=1)
    found = reckoned(tmp_path, cxx("a.cpp"), other, only="unity")
    assert found == [
        (
            "unity",
            round(14.0 + 14.1 - 14.5, 9),
            ("a.cpp", "b.cpp"),
            "headers of 2 sources take 28.1 s one by one, and 14.5 s in one file",
        )
    ]


def test_sources_with_other_flags_or_of_other_extensions_are_not_joined(tmp_path: Path) -> None:
    odd = cxx("b.cpp", invocation=replace(CXX, flags=("-O2",)))
    assert reckoned(tmp_path, cxx("a.cpp"), odd, only="unity") == []
    elsewhere = cxx("b.cpp")
    compile = compile_of("b.cpp", extension="other")
    elsewhere = replace(elsewhere, profile=replace(elsewhere.profile, compile=compile))
    assert reckoned(tmp_path, cxx("a.cpp"), elsewhere, only="unity") == []


def test_flags_are_left_out_of_the_dearest_source(tmp_path: Path) -> None:
    debug = replace(CXX, flags=("-g", "-O3"))
    place = Known(tmp_path)
    sources = [
        cxx("a.cpp", invocation=debug, cost=20.0),
        cxx("b.cpp", invocation=debug, cost=30.0),
        cxx("c.cpp"),
    ]
    (found,) = find_savings(
        sources, Rules(tuple(r for r in shipped_rules().rules if r.kind == "flags"), 0.0, 0.0), place
    )
    assert (found.seconds, found.sources) == (18.0, ("b.cpp",))
    assert found.reckoning == "compiled with and without: 30.0 s and 12.0 s; 1 more have such flags"
    assert place.ran == [("c++", "-O3", "-c", "source/b.cpp", "-o", str(tmp_path / "object.o"))]


def test_small_savings_are_not_reported(tmp_path: Path) -> None:
    rules = shipped_rules()
    large = cxx("large.cpp", cost=12.5 / rules.least_part, headers=1.0, vector=3)
    assert reckoned(tmp_path, cxx("a.cpp"), large, only="stable-abi") == []
