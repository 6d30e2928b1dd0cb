"""The edits of pyproject.toml: what changes, and that nothing else does."""

from __future__ import annotations

import pytest

from refusals import error_of
from torchwheel.cli.adopt import adopt_text, release_text
from torchwheel.system.toml import parse_toml

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

AFTER = (
    BEFORE.replace(
        '"scikit_build_core.build"   # do not change\n',
        '"torchwheel_shim"   # do not change\nbackend-path = ["backend"]\n',
    )
    + f"""

[tool.torchwheel.adopted]
{COMMENT}
build-backend = "scikit_build_core.build"
"""
)


def test_formatting_and_comments_are_kept() -> None:
    assert adopt_text(BEFORE, "") == AFTER


def test_releasing_is_the_reverse() -> None:
    """Only the line end that the last line had to get stays."""
    assert release_text(AFTER, "") == BEFORE + "\n"


def test_releasing_keeps_what_was_edited_since() -> None:
    edited = AFTER.replace('arch = "12.0"', 'arch = "9.0"  # mine').replace(
        'backend-path = ["backend"]\n', 'backend-path = ["backend"]  # torchwheel\n'
    )
    released = release_text(edited + "\n[tool.new]\nx = 1\n", "")
    assert released == BEFORE.replace('arch = "12.0"', 'arch = "9.0"  # mine') + "\n\n[tool.new]\nx = 1\n"


def test_releasing_leaves_a_backend_alone_that_was_set_since() -> None:
    text = AFTER.replace('"torchwheel_shim"', '"mesonpy"').replace('["backend"]', '["tools"]')
    released = release_text(text, "")
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
"""
    )
    assert release_text(text, "").strip() == ""


def test_a_backend_path_of_its_own_is_remembered() -> None:
    text = '[build-system]\nrequires = []\nbackend-path = [ "a", "b" ]\nbuild-backend = "m:o"\n'
    adopted = adopt_text(text, "")
    record = {"build-backend": "m:o", "backend-path": ["a", "b"]}
    assert parse_toml(adopted, "")["tool"]["torchwheel"]["adopted"] == record
    assert parse_toml(release_text(adopted, ""), "") == parse_toml(text, "")


def test_what_is_remembered_from_before_is_replaced() -> None:
    stale = BEFORE + '\n\n[tool.torchwheel.adopted]\nbuild-backend = "old"\n'
    assert parse_toml(adopt_text(stale, ""), "") == parse_toml(AFTER, "")


@pytest.mark.parametrize(
    "text",
    [
        'tool = { black = { x = 1 } }\n[build-system]\nrequires = []\nbuild-backend = "m"\n',
        '[tool]\ntorchwheel = { arch = "9.0" }\n[build-system]\nrequires = []\n',
        "build-system = 3\n",
        "# a\n" * 20_000,
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    (problem,) = error_of(adopt_text, text, "pyproject.toml").problems
    assert (problem.id, problem.origin) == ("pyproject-not-editable", "pyproject.toml")
