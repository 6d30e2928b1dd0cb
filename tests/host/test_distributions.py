"""What is installed, by the names of folders, against the standard library's own answer."""

from __future__ import annotations

import importlib.metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from torchwheel.host.distributions import canonical_name, installed_versions, is_met


def test_installed_versions_are_those_that_importlib_finds() -> None:
    found = installed_versions()
    expected: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        expected.setdefault(canonical_name(distribution.metadata["Name"]), distribution.version)
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("some-package", True),
        ("Some.Package>=1.2", True),
        ("some_package >= 1.2.3", True),
        ("some-package>=1.2.4", False),
        ("some-package>=1.2,<2", True),
        ("some-package[extra]==1.2.*", True),
        ("some-package<1", False),
        ("some-package>=2; python_version < '3'", True),
        ("absent", False),
        ("absent>=1", False),
    ],
)
def test_requirements(requirement: str, met: bool) -> None:
    assert is_met(requirement, {"some-package": "1.2.3"}) is met


@given(
    st.from_regex(r"[0-9]{1,2}(\.(0|0[1-9]|[0-9]{1,2})){0,3}(rc1|\.post1)?", fullmatch=True),
    st.from_regex(r"[0-9]{1,2}(\.(0|0[1-9]|[0-9]{1,2})){0,3}", fullmatch=True),
)
def test_least_versions_are_compared_as_packaging_does(installed: str, least: str) -> None:
    assert is_met(f"it>={least}", {"it": installed}) is (Version(installed) >= Version(least))
