"""Reading the CMake language: every form of argument, and junk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps import is_linear
from torchwheel.tree.cmake_options import Command, parse_commands


def test_every_form_of_argument() -> None:
    text = r"""# a comment with option(A "no" ON)
#[[ a bracket comment
option(B "no" ON) ]] #[==[ another ]] one ]==]
OPTION( USE_A  # to the end of the line ) "
        "a quoted \"text\" with # and ( and \
a continued line" ON)
set(LIST [=[
raw ]] \n ${x}]=] a\;b;c\ d -D"x y"z "")
if((A AND B) OR NOT ${C})
message("over
two lines")
"""
    assert list(parse_commands(text)) == [
        Command("option", ("USE_A", 'a quoted "text" with # and ( and a continued line', "ON"), 4),
        Command("set", ("LIST", "raw ]] \\n ${x}", "a\\;b;c d", '-D"x y"z', ""), 7),
        Command("if", ("(", "A", "AND", "B", ")", "OR", "NOT", "${C}"), 9),
        Command("message", ("over\ntwo lines",), 10),
    ]


def test_windows_line_ends_change_nothing() -> None:
    text = 'set(A\n  b)\n\noption(C "d\ne" ON)\n'
    assert list(parse_commands(text.replace("\n", "\r\n"))) == list(parse_commands(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('option(A "never closed', [Command("option", ("A", "never closed"), 1)]),
        ("option(A [[never closed", [Command("option", ("A", "never closed"), 1)]),
        ("option(A", [Command("option", ("A",), 1)]),
        ("#[[ never closed\noption(A)", []),
        (') ) " option(A) " option(B)', [Command("option", ("B",), 1)]),
        ("option(A \\", [Command("option", ("A",), 1)]),
        ("1option(A)", []),
        ("", []),
    ],
)
def test_broken_text_is_read_as_far_as_it_goes(text: str, expected: list[Command]) -> None:
    assert list(parse_commands(text)) == expected


@given(st.text(alphabet='ab(\\)"#[]=; \n\r$\u00e9') | st.text())
def test_junk_never_raises(text: str) -> None:
    for command in parse_commands(text):
        assert command.name
        assert 1 <= command.line <= text.count("\n") + 1


@pytest.mark.parametrize(
    "unit",
    ["[", "#[[", '"', '\\"', "a(", "(", "a", "a ", "a( [[", 'a("', "x\\", '"\\', " ", "set(a(", "[=", '-"'],
)
@pytest.mark.parametrize("end", ["", "\\", '"\\'])
def test_long_junk_takes_no_time(unit: str, end: str) -> None:
    def parse(size: int) -> None:
        assert all(command.name for command in parse_commands(unit * (size // len(unit)) + end))

    assert is_linear(parse, 2_000)
    parse(100_000)


_WORD = st.text(alphabet="ABCabc_019", min_size=1, max_size=8)
_ANY = st.text(alphabet=st.characters(blacklist_categories=("Cs",), blacklist_characters="\\\r"), max_size=12)


@given(st.lists(st.tuples(_WORD.map("c".__add__), st.lists(_ANY, max_size=4)), max_size=4))
def test_what_is_written_quoted_comes_back(written: list[tuple[str, list[str]]]) -> None:
    lines = []
    for name, arguments in written:
        quoted = " ".join('"' + argument.replace('"', '\\"') + '"' for argument in arguments)
        lines.append(f"{name}({quoted})  # (\n")
    read = [(command.name, list(command.arguments)) for command in parse_commands("".join(lines))]
    assert read == [(name.lower(), arguments) for name, arguments in written]
