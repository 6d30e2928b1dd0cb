"""Adding bounds to what a wheel requires."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.wheel.metadata_text import parse_metadata_text
from torchwheel.wheel.requirements import is_satisfiable, missing_bounds, with_bounds

ABI = ("torch>=2.14,<2.15",)


def bounded(*requires: str, bounds: tuple[str, ...] = ABI) -> list[str]:
    text = "Name: kernels\n" + "".join(f"Requires-Dist: {value}\n" for value in requires) + "\nText\n"
    changed = with_bounds(parse_metadata_text(text.encode()), bounds, "wheel")
    assert bytes(changed).startswith(b"Name: kernels\n") and bytes(changed).endswith(b"\n\nText\n")
    return list(changed.values("Requires-Dist"))


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ([], ["torch<2.15,>=2.14"]),
        (["numpy"], ["numpy", "torch<2.15,>=2.14"]),
        (["torch"], ["torch<2.15,>=2.14"]),
        (["torch>=2.4", "numpy"], ["torch<2.15,>=2.14,>=2.4", "numpy"]),
        (["Torch (>=2.4)", "torch!=2.14.0"], ["torch!=2.14.0,<2.15,>=2.14,>=2.4"]),
        (["torch[opt-einsum]==2.14.*"], ["torch[opt-einsum]<2.15,==2.14.*,>=2.14"]),
        (
            ["torch>=2.4; sys_platform == 'linux'", "torch; extra == 'all'"],
            ["torch>=2.4; sys_platform == 'linux'", "torch; extra == 'all'", "torch<2.15,>=2.14"],
        ),
        (
            ["torch @ https://example.org/torch.whl"],
            ["torch @ https://example.org/torch.whl", "torch<2.15,>=2.14"],
        ),
        (["torchvision", "not a requirement"], ["torchvision", "not a requirement", "torch<2.15,>=2.14"]),
    ],
)
def test_merged(requires: list[str], expected: list[str]) -> None:
    found = bounded(*requires)
    assert found == expected
    assert missing_bounds(found, ABI) == ()
    assert missing_bounds(requires, ABI) == ABI


def test_twice_is_once() -> None:
    once = bounded("torch>=2.4")
    assert bounded(*once) == once


def test_no_bounds_change_nothing() -> None:
    assert bounded("torch (>=2.4)", bounds=()) == ["torch (>=2.4)"]


def test_contradictions() -> None:
    with pytest.raises(TorchwheelError) as caught:
        bounded("torch>=2.4", "torch<2.10", "numpy<2", bounds=(*ABI, "numpy>=2"))
    why = "a wheel works with the ABI of the {} that it was built with; no version satisfies both"
    remedy = "build with a {} that satisfies {} (name it in build-system.requires), or widen what the project requires"
    assert caught.value.problems == (
        Problem(
            id="contradictory-requirements",
            what="the project requires torch>=2.4 and torch<2.10, and this wheel needs torch<2.15,>=2.14",
            remedy=remedy.format("torch", "torch>=2.4 and torch<2.10"),
            why=why.format("torch"),
            origin="wheel",
        ),
        Problem(
            id="contradictory-requirements",
            what="the project requires numpy<2, and this wheel needs numpy>=2",
            remedy=remedy.format("numpy", "numpy<2"),
            why=why.format("numpy"),
            origin="wheel",
        ),
    )


@pytest.mark.parametrize(
    ("specifiers", "expected"),
    [
        (">=2.14,<2.15", True),
        (">=2.14,<2.15,!=2.14.0", True),
        (">=2.14.dev0,<2.15", True),
        (">=2.14,<2.15,<2.10", False),
        (">=2.10,<2.10", False),
        (">2.10,<2.11", True),
        ("==2.13.*,>=2.14", False),
        ("~=2.14,<2.15", True),
        ("==2.14.1+cu130,>=2.14", True),
        ("<1", True),
        ("===main", False),
        (">2.14.1.post1,<2.14.2", True),
    ],
)
def test_is_satisfiable(specifiers: str, expected: bool) -> None:
    assert is_satisfiable(SpecifierSet(specifiers)) is expected


_GRID = [Version(f"2.{minor}{patch}") for minor in range(6) for patch in ("", ".0.1", ".1", ".2", ".2.1")]


@given(
    st.lists(
        st.tuples(st.sampled_from([">=", "<=", ">", "<", "==", "!=", "~="]), st.sampled_from(_GRID[5:25])),
        min_size=1,
        max_size=4,
    )
)
def test_is_satisfiable_where_trying_versions_finds_one(pairs: list[tuple[str, Version]]) -> None:
    specifiers = SpecifierSet(
        ",".join(f"{op}{'2.' + str(v.minor) + '.0' if op == '~=' else v}" for op, v in pairs)
    )
    if any(specifiers.contains(version) for version in _GRID):
        assert is_satisfiable(specifiers)
    elif is_satisfiable(specifiers):
        between = [Version(f"{version}.1") for version in _GRID] + [Version("0"), Version("2.9")]
        assert any(specifiers.contains(version) for version in between)
