"""Which releases of the stable ABI can be asked for, and the data that says so."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.proof.stable_abi import (
    python_symbols,
    shim_functions,
    stable_abi_problems,
    stable_abi_rules,
    target_version_macro,
)
from torchwheel.versions import parse_numbers


@given(st.integers(0, 255), st.integers(0, 255))
def test_the_macro_is_what_the_headers_compute(major: int, minor: int) -> None:
    """version.h: ``(((0ULL + 2) << 56) | ((0ULL + 10) << 48))``."""
    name, _, value = target_version_macro(f"{major}.{minor}").partition("=")
    assert (name, int(value, 16)) == ("TORCH_TARGET_VERSION", major << 56 | minor << 48)
    assert re.fullmatch("0x[0-9a-f]{16}", value)


@pytest.mark.parametrize(
    ("requested", "ids"),
    [
        *((release, []) for release in ("2.9", "2.10", "2.14")),
        ("2.15", ["stable-abi-too-new"]),
        ("2.8", ["stable-abi-too-old"]),
        *((text, ["malformed-stable-abi"]) for text in ("2.10.0", "v2.11", ">=2.12", "2", "")),
    ],
)
def test_what_can_be_requested(requested: str, ids: list[str]) -> None:
    assert [one.id for one in stable_abi_problems(requested, "2.14.1+cu130", "setup.py")] == ids


def test_the_shipped_functions() -> None:
    """Spot checks against the headers of the releases, and against the guards in those of 2.14."""
    shim = shim_functions()
    known = {
        "aoti_torch_get_dim": "2.9",
        "torch_call_dispatcher": "2.10",
        "torch_exception_get_what": "2.13",
        "torch_has_storage": "2.14",
        # Without a guard in the headers, and absent from 2.9 all the same.
        "aoti_torch_cuda_caching_allocator_raw_alloc": "2.10",
    }
    assert known.items() <= dict(shim.since).items()
    assert all(re.fullmatch(r"(aoti|torch)_\w+", name) for name in shim.since)
    assert len(shim.since) > 880


def test_what_a_release_lacks() -> None:
    shim = shim_functions()
    assert [shim.lacks("torch_from_blob", release) for release in ("2.10", "2.11", "2.12", "9.0")] == [
        True,
        False,
        False,
        False,
    ]
    # Nobody can tell what a release has that is not known yet.
    assert [shim.lacks("torch_new", release) for release in (shim.newest, "9.0")] == [True, False]


def test_the_shipped_symbols_of_python() -> None:
    python = python_symbols()
    assert python.since["PyList_New"] == "3.2"
    assert python.since["PyObject_Vectorcall"] == "3.12"
    assert python.since["_Py_NoneStruct"] == "3.2"
    assert parse_numbers(python.newest) >= (3, 14)
    assert "_PyObject_New" in python.since and "PyUnicode_AsUTF8" not in python.since


def test_the_shipped_rules() -> None:
    rules = stable_abi_rules()
    assert rules["target"]["oldest"] == min(
        shim_functions().since.values(), key=lambda text: tuple(map(int, text.split(".")))
    )
    assert {name.partition("::")[0] for name in rules["header-only"]["types"]} <= set(
        rules["unstable"]["namespaces"]
    )
