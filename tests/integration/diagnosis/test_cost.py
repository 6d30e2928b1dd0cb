"""What a log costs that was made to cost much."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from limits import within_limits
from regex_cost import superlinear
from torchwheel.diagnosis import facts, places, prefilter, scanner, tracebacks
from torchwheel.diagnosis.decoding import Window
from torchwheel.diagnosis.diagnosis_page import render
from torchwheel.diagnosis.endings import read_endings, read_work
from torchwheel.diagnosis.frames import _prefix_pattern
from torchwheel.diagnosis.grammar import catalogue_forms, read_forms
from torchwheel.diagnosis.grammar import form_needles as grammar_needles
from torchwheel.diagnosis.places import Place
from torchwheel.diagnosis.scanner import LEAST_WORK, diagnose


def read_untrusted() -> Iterator[tuple[str, re.Pattern[Any]]]:
    for form in (*catalogue_forms(), *read_forms()):
        for regex in (form.regex, form.below, form.unless, *form.context, *form.details):
            if regex is not None:
                yield f"{form.tool} {form.id}", regex
    for ending in read_endings():
        yield ending.example, ending.regex
    yield "work", read_work()
    for module in (scanner, places, facts, tracebacks):
        yield from ((name, regex) for name, regex in vars(module).items() if isinstance(regex, re.Pattern))
    yield "prefixes", re.compile(f"^{_prefix_pattern().pattern}")


PATTERNS = dict.fromkeys(read_untrusted())


@pytest.mark.parametrize("part", range(8))
def test_no_pattern_takes_more_than_linear_time(part: int) -> None:
    found = {
        name: (regex.pattern, line) for name, regex in [*PATTERNS][part::8] if (line := superlinear(regex))
    }
    assert found == {}


def test_regexploit_finds_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        sre = pytest.importorskip("regexploit.ast.sre")
        redos = pytest.importorskip("regexploit.redos")
        texts = {regex.pattern for _, regex in PATTERNS if isinstance(regex.pattern, str)}
        assert {text for text in texts if redos.find(sre.SreOpParser().parse_sre(text))} == set()


def lines(text: str, size: int = 1_000_000) -> bytes:
    return (text + "\n").encode() * (size // (len(text.encode()) + 1))


def literals() -> list[str]:
    return [*grammar_needles(), *(form.needle for form in catalogue_forms())]


@pytest.mark.parametrize(
    "log",
    [
        lambda: b"\r" * 1_000_000,
        lambda: lines("a" * 1960 + ": unbound variablx error"),
        lambda: lines("sh: " + "1" * 1900 + " not found error"),
        lambda: lines("«" * 900 + " error"),
        lambda: lines("error: "),
        lambda: b"\rerror: x" * 100_000,
        lambda: lines("RuntimeError: b'" + "foo error: bar\\n" * 20),
        lambda: lines(" ".join(literals())[:2000]),
        lambda: b"".join(lines(form.needle, 20_000) for form in catalogue_forms() if form.context),
    ],
    ids=[
        "returns",
        "word",
        "digits",
        "guillemets",
        "errors",
        "returns of errors",
        "escaped",
        "every literal",
        "no context",
    ],
)
def test_a_megabyte_of_log_comes_to_an_end(log: Callable[[], bytes]) -> None:
    within_limits(lambda: diagnose([log()]))


def test_lines_that_stand_escaped_in_another_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = lines("RuntimeError: b'" + "foo error: bar\\n" * 20, 40_000)
    looked = []
    monkeypatch.setattr(scanner, "classify", lambda *arguments, **named: looked.append(0))
    monkeypatch.setattr(scanner, "MOST_WORK", 1_200)
    diagnose([log])
    assert len(looked) == 10


def test_what_is_repeated_is_searched_once_and_found_each_time() -> None:
    needles = ["rror: ", "/nvcc: ", "LNK2019", "not found"]
    blocks = [
        b"".join(
            b"[%d/900] c++ -I/usr/local/include -c /src/aten/file%d.cpp\n" % (number, number % 7)
            for number in range(100 * block, 100 * block + 100)
        )
        + [b"", b"x/nvcc: not found\n", b"a/b.obj : error LNK2019: f\nb/LNK9999/error: x\n"][block % 3]
        for block in range(9)
    ]
    search = prefilter.Prefilter(needles)
    for block in blocks:
        found = [
            (line.start(), line.end(), held)
            for line in re.finditer(rb"[^\n]+", block)
            if (held := [one for one in sorted(needles) if one.encode() in line[0]])
        ]
        assert [(hit.start, hit.end, hit.needles) for hit in search.find_hits(block)] == found
    assert b"aten" in search._without_needles
    assert len(search._without_needles) < 30


def test_of_parts_without_needles_a_bounded_number_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefilter, "PARTS_KEPT", 50)
    search = prefilter.Prefilter(["error"])
    for block in range(40):
        parts = b"".join(b"/%s%s" % (b"x" * block, b"y" * number) for number in range(10))
        assert list(search.find_hits((parts + b"\n") * 3 + b"z" * 2000 * (block % 2))) == []
        assert len(search._without_needles) <= 50 + 11
        assert max(map(len, search._without_needles), default=0) <= prefilter.LONGEST_PART


def test_of_many_short_lines_the_first_are_looked_at_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    log = lines("x: error y", 400_000)
    looked = []
    monkeypatch.setattr(scanner, "classify", lambda *arguments, **named: looked.append(0))
    diagnosis = diagnose([log], [])
    assert (len(looked), diagnosis.passed_over) == (2_000, 34_363)
    assert render(diagnosis).endswith(
        "\n\nNot looked at, as thousands stand before: 34363 lines that could tell of a\nfailure."
    )
    looked.clear()
    # By the bytes of the log, and a line of 2,000 characters as eight.
    assert diagnose([lines("x: error y\n" + "a" * 500, 3 * 1_000 * 512)], []).passed_over == 0
    assert len(looked) == 3_000
    looked.clear()
    assert diagnose([lines("x: error " + "y" * 1_990, 1_000_000)], []).passed_over == 196
    assert len(looked) == 304
    monkeypatch.setattr(scanner, "LEAST_WORK", 1_000)
    monkeypatch.setattr(scanner, "BYTES_FOR_ONE_WORK", 400)
    assert diagnose([log], []).passed_over == 36_197


def test_a_context_that_never_comes_is_looked_for_at_the_first_places_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    form = replace(
        catalogue_forms()[0], needle="error", regex=re.compile("error"), context=(re.compile("never"),)
    )
    looked = []
    nearby = Place.nearby
    monkeypatch.setattr(Place, "nearby", lambda place: looked.append(0) or nearby(place))
    assert diagnose([lines("error y", 400_000)], [form]).cause is None
    assert 0 < len(looked) <= LEAST_WORK // 10


def test_the_lines_around_a_place_are_the_same_wherever_a_block_is_cut() -> None:
    text = b"".join(b"line %d\n" % number for number in range(1, 40_000))
    start = text.index(b"line 20000\n")
    end = start + len(b"line 20000")
    whole = [*Window(b"", text, b"", 1).lines(19_970, 20_030)]
    assert [line.number for line in whole] == [*range(19_970, 20_031)]
    assert [line.text for line in whole] == [f"line {number}" for number in range(19_970, 20_031)]
    for before in (start - 8, start - 90, start - 200_000):
        cut = text.index(b"\n", max(before, 0)) + 1
        later = text.index(b"\n", end + 50) + 1
        window = Window(
            text[:cut][-65536:], text[cut:later], text[later:][:65536], text[:cut].count(b"\n") + 1
        )
        assert [*window.lines(19_970, 20_030)] == whole
