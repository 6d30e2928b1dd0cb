"""The edits of pyproject.toml: what changes, and that nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel._toml import parse_toml
from torchwheel.adopt.pyproject_text import (
    OwnBuildSystem,
    adopt_text,
    own_build_system,
    release_text,
    remembered_build_system,
)
from torchwheel.errors import TorchwheelError

COMMENT = "# The tree's own build backend; `torchwheel adopt --undo` puts it back."

BEFORE = """\
# Package ####################################

[build-system]
requires = [
    "numpy",
    "packaging>=24.2",  # required by setuptools>=77
]
build-backend   =   "scikit_build_core.build"   # do not change

# Settings ###################################

[tool.scikit-build]
minimum-version = "build-system.requires"
  env.CC = { env = "CC" }

[[tool.scikit-build.overrides]]
if.env.DEBUG = true

[project]
name = "torch"

[tool.torchwheel]
arch = "12.0"

[dependency-groups]
dev = [ "spin" ,
]"""

AFTER = f"""\
# Package ####################################

[build-system]
requires = [
    "numpy",
    "packaging>=24.2",  # required by setuptools>=77
]
build-backend   =   "torchwheel_shim"   # do not change
backend-path = ["backend"]

# Settings ###################################

[tool.scikit-build]
minimum-version = "build-system.requires"
  env.CC = {{ env = "CC" }}

[[tool.scikit-build.overrides]]
if.env.DEBUG = true

[project]
name = "torch"

[tool.torchwheel]
arch = "12.0"

[dependency-groups]
dev = [ "spin" ,
]

[tool.torchwheel.adopted]
{COMMENT}
build-backend = "scikit_build_core.build"
"""


def test_formatting_and_comments_are_kept() -> None:
    assert adopt_text(BEFORE, "") == AFTER


def test_releasing_is_the_reverse() -> None:
    """Only the line end that the last line had to get stays."""
    assert release_text(AFTER, own_build_system(BEFORE, ""), "") == BEFORE + "\n"


def test_releasing_keeps_what_was_edited_since() -> None:
    edited = AFTER.replace('arch = "12.0"', 'arch = "9.0"  # mine').replace(
        'backend-path = ["backend"]\n', 'backend-path = ["backend"]  # torchwheel\n'
    )
    released = release_text(edited + "\n[tool.new]\nx = 1\n", own_build_system(BEFORE, ""), "")
    assert released == BEFORE.replace('arch = "12.0"', 'arch = "9.0"  # mine') + "\n\n[tool.new]\nx = 1\n"


def test_releasing_leaves_a_backend_alone_that_was_set_since() -> None:
    text = AFTER.replace('"torchwheel_shim"', '"mesonpy"').replace('["backend"]', '["tools"]')
    released = release_text(text, own_build_system(BEFORE, ""), "")
    assert parse_toml(released, "")["build-system"]["build-backend"] == "mesonpy"
    assert parse_toml(released, "")["build-system"]["backend-path"] == ["tools"]


def test_a_file_of_nothing() -> None:
    text = adopt_text("", "")
    assert (
        text
        == f"""\
[build-system]
requires = ["setuptools>=40.8.0"]
build-backend = "torchwheel_shim"
backend-path = ["backend"]

[tool.torchwheel.adopted]
{COMMENT}
build-backend = "setuptools.build_meta:__legacy__"
"""
    )
    assert release_text(text, OwnBuildSystem(has_table=False), "").strip() == ""


def test_a_backend_path_of_its_own_is_remembered() -> None:
    text = '[build-system]\nrequires = []\nbackend-path = [ "a", "b" ]\nbuild-backend = "m:o"\n'
    adopted = adopt_text(text, "")
    expected = OwnBuildSystem(True, {"build-backend": "m:o", "backend-path": ["a", "b"]})
    assert (own_build_system(text, ""), remembered_build_system(adopted, "")) == (expected, expected)
    assert parse_toml(release_text(adopted, expected, ""), "") == parse_toml(text, "")


def test_what_is_remembered_from_before_is_replaced() -> None:
    stale = BEFORE + '\n\n[tool.torchwheel.adopted]\nbuild-backend = "old"\n'
    assert parse_toml(adopt_text(stale, ""), "") == parse_toml(AFTER, "")


@pytest.mark.parametrize(
    "text",
    [
        'tool = { black = { x = 1 } }\n[build-system]\nrequires = []\nbuild-backend = "m"\n',
        '[tool]\ntorchwheel = { arch = "9.0" }\n[build-system]\nrequires = []\n',
        "# a\n" * 20_000,
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(TorchwheelError) as caught:
        adopt_text(text, "pyproject.toml")
    (problem,) = caught.value.problems
    assert (problem.id, problem.origin) == ("pyproject-not-editable", "pyproject.toml")


_GAP = st.sampled_from(["", "\n", "# a comment\n", "   \n", "\n# a # comment \t\n\n"])
_BUILD_SYSTEM = st.sampled_from(
    [
        "",
        "[build-system]\nrequires = []\n",
        '[build-system]\nrequires=["a",\n  "b",  # why\n]\nbuild-backend = "setuptools.build_meta"\n',
        "[build-system] # table\n  build-backend = 'scikit_build_core.build'  \n\trequires = [ ]\n",
        '[ "build-system" ]\nrequires = []\n"build-backend" = """setuptools.build_meta"""\n',
        "build-system = {requires = [], build-backend = 'setuptools.build_meta'}\n",
        'build-system.requires = []\nbuild-system.build-backend = "setuptools.build_meta"\n',
    ]
)
_TABLES = st.lists(
    st.sampled_from(
        [
            "[tool.black]\nline-length = 88\n",
            "[tool.isort]\nprofile='black' # isort\n",
            "[tool.torchwheel]\narch = '9.0'\n",
            "[tool.torchwheel.target.mine]\narch = '12.0'\n",
            "[project]\nname = 'torch'\ndescription = '''\nover\n\nlines'''\n",
            "[[tool.overrides]]\nx = [1,\n 2]\n[[tool.overrides]]\n",
            "[dependency-groups]\ndev = [{include-group = 'é'}]\n",
        ]
    ),
    unique=True,
)


@st.composite
def pyprojects(draw: st.DrawFn) -> str:
    """Files with the build system first or, where that is possible, anywhere else."""
    build_system, tables = draw(_BUILD_SYSTEM), draw(_TABLES)
    place = draw(st.integers(0, len(tables))) if build_system.startswith("[") else 0
    pieces = [*tables[:place], build_system, *tables[place:]]
    text = "".join(draw(_GAP) + piece for piece in pieces) + draw(_GAP)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return text


@pytest.mark.slow
@given(pyprojects())
def test_an_edit_changes_what_it_should_and_keeps_every_line(text: str) -> None:
    before = parse_toml(text, "")
    adopted = adopt_text(text, "")
    after = parse_toml(adopted, "")
    own = {key: before.get("build-system", {}).get(key) for key in ("build-backend", "backend-path")}

    assert after["build-system"].pop("build-backend") == "torchwheel_shim"
    assert after["build-system"].pop("backend-path") == ["backend"]
    assert after["tool"]["torchwheel"].pop("adopted") == {
        "build-backend": own["build-backend"] or "setuptools.build_meta:__legacy__"
    }
    after["tool"] = {key: value for key, value in after["tool"].items() if key != "torchwheel" or value}
    expected = {"build-system": {"requires": ["setuptools>=40.8.0"]}, **before}
    expected["build-system"] = {k: v for k, v in expected["build-system"].items() if k != "build-backend"}
    assert {k: v for k, v in after.items() if v or k != "tool"} == expected

    lines = iter(adopted.splitlines(keepends=True))
    for line in text.splitlines(keepends=True)[:-1]:
        if "build-backend" not in line:
            assert line in lines, f"{line!r} is gone, or has moved"
    if "\r\n" in text:
        assert adopted.count("\n") == adopted.count("\r\n")

    released = release_text(adopted, own_build_system(text, ""), "")
    assert parse_toml(released, "") == before
