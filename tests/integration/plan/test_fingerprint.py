"""What makes a build directory of its own, and what does not: each part of the fingerprint changes it by itself.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from torchwheel.host.machine import described_host
from torchwheel.plan.build_plan import Define, Variable
from torchwheel.plan.make import Inputs, compute_fingerprint
from torchwheel.settings import Layer, load_settings
from torchwheel.settings.overlays import NO_USER_OVERLAYS
from torchwheel.toolkit.select import Candidates
from torchwheel.tree.source_tree import Generation, Tree

TREE = Tree(
    root=Path("tree"),
    name="torch",
    version_text="2.6.0",
    generation=Generation.SETUP_PY,
    backend="setuptools.build_meta",
    backend_path=(),
    requires=(),
    options={},
    known_names=frozenset(),
)


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
        inputs = Inputs(given, TREE, host, Candidates(), Path("cache"), None, python_executable="")
        return compute_fingerprint(inputs, None, {}, reversed(defines), variables)

    same = asked == other
    assert (of(asked, {}) == of(other, {})) is same
    assert (of({}, asked) == of({}, other)) is same
    assert (of(asked, other) == of(other, asked)) is same
