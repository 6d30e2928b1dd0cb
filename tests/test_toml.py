"""TOML that is none, or that Python cannot read: one error with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel._toml import parse_toml
from torchwheel.errors import TorchwheelError
from torchwheel.survey import metadata_is_cheap
from torchwheel.versions import malformed_requirements


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "a = " + "1" * 5_000,
        "a = " + "[" * 50_000,
        "a = " + "{b = " * 3_000 + "1" + "}" * 3_000,
        "a" + ".b" * 3_000 + " = 1",
        r'a = "x\u0000"',
        r'a = [[{ b = "c" }, { d = "\U00000000" }]]',
        r'"\u0000" = 1',
    ],
    ids=["nothing", "digits", "arrays", "tables", "dots", "nul", "nul in a list", "nul in a key"],
)
def test_what_cannot_be_read_is_one_error(text: str) -> None:
    with pytest.raises(TorchwheelError) as caught:
        parse_toml(text, "pyproject.toml")
    assert [(problem.id, problem.origin) for problem in caught.value.problems] == [
        ("malformed-toml", "pyproject.toml")
    ]


@pytest.mark.parametrize(
    "overrides",
    ["1", '"a"', "[1]", "[[]]", "[{ if = 1 }]", "[{ if = { any = 1 } }]", "{ if = { failed = true } }"],
)
@pytest.mark.parametrize("key", ["tool.scikit-build.overrides", "tool.scikit-build", "tool"])
def test_odd_tables_of_overrides_are_no_exception(tmp_path: Path, overrides: str, key: str) -> None:
    text = f'{key} = {overrides}\n[build-system]\nrequires = []\nbuild-backend = "scikit_build_core.build"\n'
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    assert metadata_is_cheap(tmp_path) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "--index-url=https://example.invalid",
        "-r x",
        "a b",
        "",
        "a>=",
        "./a.whl",
        # Frontends write requirements into a file, line by line.
        "a @ https://example.invalid/a.whl\n--index-url=https://example.invalid",
        "a @ https://example.invalid/a.whl\u2028-e .",
        "a @ https://example.invalid/a.whl\n",
        "a; 'b' in extras",
        "a; os_name ~= 'b'",
    ],
)
def test_what_is_no_requirement_is_refused(text: str) -> None:
    assert [problem.id for problem in malformed_requirements(["cmake>=3.27", text], "")] == [
        "malformed-requirement"
    ]


def test_requirements_are_sound() -> None:
    texts = ["a", "a[b]>=1,<2", "a @ https://example.invalid/a.whl", "a; python_version < '3.11'"]
    assert malformed_requirements(texts, "") == []
