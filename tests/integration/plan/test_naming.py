"""What the wheel is called: the base version, the local label, and the trap of a pre-release.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from torchwheel.plan.naming import wheel_version
from torchwheel.tree.source_tree import Generation, Tree


@given(
    base=st.from_regex(r"\A[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?((a|b|rc)[0-9]{1,2})?\Z"),
    commit=st.none() | st.from_regex(r"\A[0-9a-f]{40}\Z"),
    label=st.from_regex(r"\Acu1[0-9]{2}(\.sm[0-9]{2,3}[af]?){1,4}(\.ptx[0-9]{2,3})?\Z"),
)
def test_the_version_survives_normalisation(base: str, commit: str | None, label: str) -> None:
    """The name in the file, in METADATA and in torch.version are one text: pip must not rewrite it."""
    version, _ = wheel_version(_tree(base, commit), None, None, label)
    assert str(version) == str(Version(str(version)))
    assert version.local.endswith(label)
    assert Version(version.base) == Version(base)


def _tree(version_text: str, commit: str | None) -> Tree:
    return Tree(
        root=Path("tree"),
        name="torch",
        version_text=version_text,
        generation=Generation.SETUP_PY,
        backend="setuptools.build_meta",
        backend_path=(),
        requires=(),
        options={},
        known_names=frozenset(),
        commit=commit,
    )
