"""TOML that is none, or that Python cannot read: one error with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from limits import within_limits
from put import put
from refusals import origins_of
from torchwheel.host.machine import marker_holds
from torchwheel.preflight.host_file import read_host_file
from torchwheel.reporting.errors import TorchwheelError, find_nearest
from torchwheel.settings.project import read_project
from torchwheel.survey import metadata_is_cheap
from torchwheel.system.toml import parse_toml, read_toml
from torchwheel.versions import malformed_requirements


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "a = " + "1" * 5_000,
        "a = " + "[" * 50_000,
        "a = " + "{b = " * 3_000 + "1" + "}" * 3_000,
        r'a = "x\u0000"',
        r'a = [[{ b = "c" }, { d = "\U00000000" }]]',
        r'"\u0000" = 1',
    ],
    ids=["nothing", "digits", "arrays", "tables", "nul", "nul in a list", "nul in a key"],
)
def test_what_cannot_be_read_is_one_error(text: str) -> None:
    assert origins_of(parse_toml, text, "pyproject.toml") == [("malformed-toml", "pyproject.toml")]


@pytest.mark.parametrize("text", ["#" * 32_769, "# " + "é" * 16_384])
def test_a_host_file_is_no_larger_than_a_machine_takes(tmp_path: Path, text: str) -> None:
    file = put(tmp_path / "host.toml", text)
    assert origins_of(read_host_file, file) == [("oversized-toml", str(file))]
    assert read_toml(file) == {}


@pytest.mark.parametrize("entry", ["k{}=1\n", "[gpus.a{}]\n", "a{}.b.c.d=1\n"])
def test_a_host_file_that_was_made_to_cost_much_is_read_in_little_time(tmp_path: Path, entry: str) -> None:
    file = put(tmp_path / "host.toml", "".join(map(entry.format, range(4_000)))[:32_768])
    within_limits(_read_wrong_host, file)
    for name in ("a", '"a"', "'a'"):
        file.write_text(f"[{name}{f' . {name}' * 4_000}]\n", encoding="utf-8")
        within_limits(_read_wrong_host, file)


def _read_wrong_host(file: Path) -> None:
    with pytest.raises(TorchwheelError):
        read_host_file(file)


def test_a_project_may_have_as_many_tables_as_it_likes(tmp_path: Path) -> None:
    rows = "".join(f"[tool.torchwheel.target.a{number}]\n" for number in range(3_000))
    (tmp_path / "pyproject.toml").write_text(rows, encoding="utf-8")
    assert len(read_project(tmp_path).torchwheel["target"]) == 3_000


def test_a_long_name_has_no_nearest() -> None:
    assert find_nearest("torchwheel" * 20, ["torchwheel" * 20]) is None


def test_a_condition_of_nested_parentheses_is_no_condition() -> None:
    # packaging up to 26.3 exhausts the stack; from 26.4 on it counts levels and raises InvalidMarker, a ValueError.
    with pytest.raises(ValueError):
        marker_holds("(" * 50_000, {})
    assert [one.id for one in malformed_requirements(["a; " + "(" * 50_000], "here")] == [
        "malformed-requirement"
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
