"""Versions that need no normalising, held against packaging."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from torchwheel._normal_version import is_normal_release


@given(
    st.from_regex(
        r"[0-9]{1,2}(\.[0-9]{1,2}){0,3}(a1|rc2|\.post1|\.dev3)?(\+[0-9a-zA-Z]{1,3}(\.[0-9a-z]{1,3}){0,2})?",
        fullmatch=True,
    )
)
def test_a_normal_release_is_what_packaging_makes_of_it(text: str) -> None:
    version = Version(text)
    if is_normal_release(text):
        assert str(version) == text
        assert not version.is_prerelease
        assert version.post is None


def test_the_usual_versions_are_normal() -> None:
    assert all(
        map(
            is_normal_release,
            ["2.14.1", "2.14.1+cpu", "2.6.0+cu126.sm75.sm120a.ptx120", "2.6.0+git0123456", "3"],
        )
    )
    assert not any(
        map(is_normal_release, ["", "2.06", "2.6.0a0", "2.6+CPU", "2.6+cu126_x", "v2.6", "2.6.0+", "1!2.6"])
    )
