"""Tables, paragraphs and lists of facts that fit the terminal, and colours where it has them."""

from __future__ import annotations

import io
import os
import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.reporting.terminal import (
    config_option,
    format_duration,
    format_facts,
    format_table,
    join_items,
    paint,
    shell_word,
    show,
    terminal_width,
    wants_colour,
    wrap,
)

HEADERS = ("NAME", "SIZE", "WHAT IT IS")
ROWS = [
    ("a100", "80 GiB", "a GPU with a long description that goes on"),
    ("geforce-rtx-5070", "", "short"),
    ("x", "1", ""),
]


def test_the_last_column_is_wrapped() -> None:
    assert format_table(HEADERS, ROWS, 56) == (
        "NAME              SIZE    WHAT IT IS\n"
        "a100              80 GiB  a GPU with a long description\n"
        "                          that goes on\n"
        "geforce-rtx-5070          short\n"
        "x                 1"
    )


def test_where_there_is_no_room_the_last_column_goes_below() -> None:
    assert format_table(HEADERS, ROWS, 40) == (
        "NAME              SIZE\n"
        "    WHAT IT IS\n"
        "a100              80 GiB\n"
        "    a GPU with a long description that\n"
        "    goes on\n"
        "geforce-rtx-5070\n"
        "    short\n"
        "x                 1"
    )


def test_the_header_is_coloured_where_colours_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert format_table(("A", "B"), [("1", "2")], 80) == "\x1b[1mA  B\x1b[0m\n1  2"
    assert format_table(("LONG NAME", "B"), [("1", "2")], 20) == (
        "\x1b[1mLONG NAME\x1b[0m\n\x1b[1m    B\x1b[0m\n1\n    2"
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert format_table(("A", "B"), [("1", "2")], 80) == "A  B\n1  2"


def test_facts_leave_out_what_is_not_known() -> None:
    rows = [("wheel", "torch.whl"), ("commit", ""), ("tags", "cp311-cp311-linux_x86_64, cp311-none-any")]
    assert format_facts(rows, 36) == (
        "wheel  torch.whl\ntags   cp311-cp311-linux_x86_64,\n       cp311-none-any"
    )
    assert format_facts([], 80) == ""


def test_a_row_with_a_path_can_be_copied() -> None:
    rows = [
        ("log", "/a folder with spaces/its log is here/build.log"),
        ("jobs", "2 (that is what was asked for)"),
    ]
    assert format_facts(rows, 30, ("log",)) == (
        "log   /a folder with spaces/its log is here/build.log\njobs  2 (that is what was\n      asked for)"
    )


@given(
    st.lists(st.lists(st.text("ab -", max_size=30), min_size=3, max_size=3), max_size=5),
    st.integers(min_value=20, max_value=120),
)
def test_every_cell_is_there_and_every_line_fits(rows: list[list[str]], width: int) -> None:
    lines = format_table(("A", "B", "C"), rows, width).split("\n")
    assert all(line == line.rstrip() for line in lines)
    assert "".join(lines).replace(" ", "") == "ABC" + "".join(map("".join, rows)).replace(" ", "")
    leading = sum(max(len(row[column]) for row in [["A", "B"], *rows]) + 2 for column in (0, 1))
    longest_word = max((len(word) for row in rows for word in row[2].split()), default=1)
    room = width - leading if width - leading >= 24 else width - 4
    if longest_word <= room:
        assert all(len(line) <= max(width, leading) for line in lines)


def test_where_there_is_no_room_at_all_each_word_has_a_line() -> None:
    """A message that stands behind others has what they leave of a narrow terminal."""
    assert wrap("one two", -12) == ["one", "two"]


@pytest.mark.parametrize("columns", [0, 133])
def test_the_width_of_a_terminal_that_states_none_is_80(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a new pseudo-terminal does, which is what containers and other programs give."""
    monkeypatch.delenv("COLUMNS", raising=False)
    size = os.terminal_size((columns, 24))
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback=(80, 24): size)
    assert terminal_width() == (columns or 80)


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Screen(), {}, True),
        (Screen(), {"TERM": "dumb"}, False),
        (Screen(), {"NO_COLOR": "1"}, False),
        (Screen(), {"NO_COLOR": ""}, True),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours(stream: io.StringIO, environment: dict[str, str], expected: bool) -> None:
    assert wants_colour(stream, environment) is expected
    assert paint("it broke", "error", expected) == ("\x1b[1;31mit broke\x1b[0m" if expected else "it broke")


@pytest.mark.parametrize(("variables", "expected"), [({"WT_SESSION": "1"}, True), ({}, False)])
def test_on_windows_its_terminal_gets_colours(
    variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert wants_colour(Screen(), variables) is expected


def test_indentation() -> None:
    text = "fix: write --cuda-path FOLDER"
    assert wrap(text, 20, "  ", "       ") == ["  fix: write", "       --cuda-path", "       FOLDER"]
    assert wrap(text, 20, "  ") == ["  fix: write", "  --cuda-path FOLDER"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b"),
        ("\x1b[2J\x1b[31mred", "\\x1b[2J\\x1b[31mred"),
        ("\x9b2J\x7f\x00", "\\x9b2J\\x7f\\x00"),
        ("a\u202egpj.exe", "a\\u202egpj.exe"),
        ("\udcff", "\\udcff"),
        ("\u00e4 \u8336\n\tb", "\u00e4 \u8336\n\tb"),
        ("\x1b[1;31merror\x1b[0m", "\x1b[1;31merror\x1b[0m"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(text)
    assert capsys.readouterr().out == shown + "\n"


@pytest.mark.parametrize(
    ("seconds", "exact", "coarse"),
    [
        (-5.0, "0 s", "0 s"),
        (7.4, "7 s", "7 s"),
        (59.7, "1 min 0 s", "1 min"),
        (99.0, "1 min 39 s", "2 min"),
        (7505.0, "2 h 5 min", "2 h 5 min"),
    ],
)
def test_durations(seconds: float, exact: str, coarse: str) -> None:
    assert (format_duration(seconds), format_duration(seconds, coarse=True)) == (exact, coarse)


def test_listed() -> None:
    assert join_items(["a"]) == "a"
    assert join_items(list("abcde")) == "a, b, c, d, e"
    assert join_items(list("abcdefg")) == "a, b, c, d, e and 2 more"


def test_a_setting_is_typed_in_the_quotes_of_the_shell_at_hand() -> None:
    """cmd.exe takes single quotes for letters; PowerShell and sh end a command at a semicolon."""
    typed = [config_option("arch", "12.0"), config_option("arch", "8.0;9.0"), config_option("cuda", ">=12.8")]
    assert [shlex.split(words) for words in typed] == [
        ["-C", "arch=12.0"],
        ["-C", "arch=8.0;9.0"],
        ["-C", "cuda=>=12.8"],
    ]
    words = ("arch=12.0", "arch=8.0;9.0", "cuda=>=12.8", r"C:\tw", r"C:\Program Files\x", "arch=8.0,9.0")
    assert [shell_word(word, windows=True) for word in words] == [
        "arch=12.0",
        '"arch=8.0;9.0"',
        '"cuda=>=12.8"',
        r"C:\tw",
        r'"C:\Program Files\x"',
        '"arch=8.0,9.0"',
    ]
