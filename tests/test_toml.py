"""TOML that is none, or that Python cannot read: one error with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from limits import within_limits
from torchwheel._toml import MOST_BYTES, MOST_ENTRIES, parse_toml, read_toml
from torchwheel.cli.main import main
from torchwheel.errors import TorchwheelError, nearest
from torchwheel.host.model import marker_holds
from torchwheel.preflight.host_file import read_host_file
from torchwheel.settings.project import read_project
from torchwheel.survey import metadata_is_cheap
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
    with pytest.raises(TorchwheelError) as caught:
        parse_toml(text, "pyproject.toml")
    assert [(problem.id, problem.origin) for problem in caught.value.problems] == [
        ("malformed-toml", "pyproject.toml")
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("#" * (MOST_BYTES + 1), "it has more than 262,144 bytes"),
        ("# é" + "é" * (MOST_BYTES // 2), "it has more than 262,144 bytes"),
        ("a" + ".b" * 32 + " = 1", "a key in it has more than 32 names"),
        ("[[ 'a'" + ' . "b\\" c"' * 100_000 + "]]", "it has more than 262,144 bytes"),
        ("\n[[ 'a'" + ' . "b\\" c"' * 20_000 + "]]", "a key in it has more than 32 names"),
    ],
)
def test_what_nobody_writes_by_hand_is_refused_before_it_is_parsed(
    tmp_path: Path, text: str, what: str
) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text, encoding="utf-8")

    def check() -> None:
        with pytest.raises(TorchwheelError) as caught:
            read_toml(file)
        assert [(one.id, one.what, one.origin) for one in caught.value.problems] == [
            ("oversized-toml", what, str(file))
        ]

    within_limits(check, seconds=2, megabytes=50)


def test_the_largest_file_and_the_longest_key_are_read() -> None:
    assert parse_toml("#" * MOST_BYTES, "a.toml") == {}
    assert parse_toml("[" + "a." * 31 + "a]", "a.toml") != {}
    assert parse_toml('a = "' + "b." * 100 + '"', "a.toml") == {"a": "b." * 100}


@pytest.mark.parametrize(
    "entry",
    [
        "k{}=1\n",
        "[tool.torchwheel.target.a{}]\n",
        "[[tool.torchwheel.extension]]\n",
        "[[tool.torchwheel.when]]\n",
    ],
)
def test_of_torchwheel_s_own_tables_no_more_than_a_person_writes_is_read(tmp_path: Path, entry: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        "[tool.torchwheel]\n" + "".join(map(entry.format, range(MOST_ENTRIES + 1))), encoding="utf-8"
    )
    with pytest.raises(TorchwheelError) as caught:
        read_project(tmp_path)
    assert [(one.id, one.what, one.origin) for one in caught.value.problems] == [
        ("oversized-toml", "it has more than 2,000 keys and tables that are torchwheel's", str(file))
    ]
    with pytest.raises(TorchwheelError) as caught:
        read_host_file(file)
    assert [one.id for one in caught.value.problems] == ["oversized-toml"]


def test_the_keys_of_other_tools_do_not_count(tmp_path: Path) -> None:
    rows = "".join(f"k{number}=1\n" for number in range(MOST_ENTRIES + 1))
    (tmp_path / "pyproject.toml").write_text(f"[tool.other]\n{rows}", encoding="utf-8")
    assert len(read_project(tmp_path).table("tool", "other")) == MOST_ENTRIES + 1


@pytest.mark.parametrize(
    "text",
    [
        "[tool.torchwheel]\n" + "".join(f"k{number}=1\n" for number in range(MOST_ENTRIES - 10)),
        "".join(f"[tool.torchwheel.target.a{number}]\n" for number in range(MOST_ENTRIES - 10)),
        "\n" * 200_000 + "=[tool.torchwheel.target.a]",
    ],
    ids=["unknown keys", "targets", "no TOML"],
)
def test_what_is_read_takes_little_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def check() -> None:
        with pytest.raises(SystemExit):
            main(["targets"])

    within_limits(check)


def test_a_long_name_has_no_nearest() -> None:
    assert nearest("torchwheel" * 20, ["torchwheel" * 20]) is None


def test_a_condition_of_nested_parentheses_is_no_condition() -> None:
    with pytest.raises(ValueError, match="its parentheses are nested too deeply"):
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
