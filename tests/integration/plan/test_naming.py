"""What the wheel and its build directory are called.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from backend.builds import clean_environment, run
from torchwheel.host.machine import described_host
from torchwheel.plan.build_plan import Define, Variable
from torchwheel.plan.make import Inputs, compute_fingerprint
from torchwheel.plan.naming import wheel_version
from torchwheel.settings import Layer, load_settings
from torchwheel.settings.overlays import NO_USER_OVERLAYS
from torchwheel.toolkit.select import Candidates
from torchwheel.tree.source_tree import Generation, Tree
from unit.plan.test_naming import LABELS
from wheel_samples import WheelRecipe


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


@pytest.mark.parametrize("front_end", ["pip", "uv"])
def test_pip_and_uv_choose_by_the_label(front_end: str, tmp_path: Path) -> None:
    for label in LABELS:
        WheelRecipe(version=f"2.14.1+{label}", tag="py3-none-any").write(tmp_path)
    quiet = ("--dry-run", "--no-deps", "--no-index", "--find-links", tmp_path)
    pip = (sys.executable, "-m", "pip", "install", "--ignore-installed", *quiet)
    uv = ("uv", "pip", "install", "--python", sys.executable, *quiet)
    chosen = {}
    for wanted in ("torch==2.14.1", *(f"torch==2.14.1+{label}" for label in LABELS)):
        command = (*(pip if front_end == "pip" else uv), wanted)
        answer = run(*command, cwd=tmp_path, env=clean_environment(tmp_path))
        says = answer.stdout + answer.stderr
        assert answer.returncode == 0, says
        chosen[wanted] = next(label for label in sorted(LABELS, key=len, reverse=True) if f"+{label}" in says)
    assert chosen == {"torch==2.14.1": LABELS[-1], **{f"torch==2.14.1+{label}": label for label in LABELS}}


names = st.from_regex(r"\A[A-Z][A-Z_]{0,8}\Z").map(lambda name: f"X_{name}")
texts = st.text(max_size=12)


@given(asked=st.dictionaries(names, texts, max_size=4), other=st.dictionaries(names, texts, max_size=4))
def test_different_options_or_variables_never_share_a_folder(
    asked: dict[str, str], other: dict[str, str]
) -> None:
    host = described_host("linux_x86_64", python_version="3.11.7")
    settings = load_settings(None, {}, {}, host, NO_USER_OVERLAYS)

    def of(options: dict[str, str], environment: dict[str, str]) -> str:
        defines = [Define(name, value, Layer.CONFIG, "") for name, value in options.items()]
        variables = [Variable(name, value, Layer.CONFIG, "") for name, value in environment.items()]
        given = replace(settings, env=environment)
        inputs = Inputs(
            given, _tree("2.6.0", None), host, Candidates(), Path("cache"), None, python_executable=""
        )
        return compute_fingerprint(inputs, None, {}, reversed(defines), variables)

    same = asked == other
    assert (of(asked, {}) == of(other, {})) is same
    assert (of({}, asked) == of({}, other)) is same
    assert (of(asked, other) == of(other, asked)) is same
