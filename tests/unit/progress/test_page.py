"""The report's page: whole, escaped, and shown by a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from progress.test_analysis import GRAPH, record, step
from torchwheel.progress.build_record import BuildRecord, TimedStep
from torchwheel.progress.page import analyse_record, render_page

EVIL = """<script>alert(1)</script>&"'${title}.cpp"""


def build() -> BuildRecord:
    steps = (
        step("gen.h", 0, 4),
        step("b.o", 0, 9, 70 << 20),
        TimedStep("a.o", EVIL, 4, 400, 2 << 30, hit=True),
        step("lib/a.so", 1000, 1002),
    )
    made = record(*steps)
    name = replace(made.build, name="torch<b>.whl", tree="/a<tree>")
    return replace(made, build=name, started=0.0, samples=((0.0, 5), (30.0, 3 << 30), (1002.0, 9)))


class _Elements(HTMLParser):
    """Sees that what is opened is closed, and keeps the text of each kind of element."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.counts: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.open.append(tag)
        if tag == "meta":
            self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def test_the_page_is_whole_and_what_comes_from_files_is_text() -> None:
    made = render_page(build(), analyse_record(build(), GRAPH))
    found = _Elements()
    found.feed(made)
    found.close()
    assert found.open == []
    assert "script" not in found.counts
    assert not re.search(r"https?:|url\(|@import", made)
    assert found.texts["h1"] == ["torch<b>.whl"]
    assert found.texts["h2"] == [
        "Timeline", "Memory", "Critical path", "Slowest steps", "Time by component", "Most memory",
    ]  # fmt: skip
    assert found.texts["title"][0] == "torch<b>.whl"
    assert f"{EVIL}, 6 min 36 s, 2.1 GB" in found.texts["title"]
    assert found.texts["code"][:4] == ["/a<tree>", "gen.h", EVIL, "lib/a.so"]
    assert found.texts["b"] == ["6 min 42 s", "6 min 51 s", "4", "2.1 GB", "1 of 1"]
    assert (found.counts["rect"], made.count('class="break"'), made.count(" critical")) == (4, 1, 3 + 1)
    assert "6 min 42 s at least" in made


def test_the_libraries_are_there_by_size(tmp_path: Path) -> None:
    for name, size in {"liba.so": 5_000_000, "libb.so": 20_000_000}.items():
        with (tmp_path / name).open("wb") as library:
            library.truncate(size)
    linked = record(step("liba.so", 0, 1), step("libb.so", 1, 2), folder=str(tmp_path))
    *_, table = render_page(linked, analyse_record(linked, "")).split("<h2>")
    found = _Elements()
    found.feed(f"<h2>{table}".partition("</table>")[0])
    assert {name: found.texts[name] for name in ("h2", "code", "th")} == {
        "h2": ["Size of the libraries"],
        "code": ["libb.so", "liba.so"],
        "th": ["Library", "Size"],
    }
    assert [text for text in found.texts["td"] if text.strip()] == ["20.0 MB", "5.0 MB"]


def test_a_build_without_steps_has_a_page_too() -> None:
    empty = record()
    assert "<p>No step is recorded.</p>" in render_page(empty, analyse_record(empty, ""))


def test_a_span_of_centuries_has_a_few_ticks_and_no_memory_is_no_error() -> None:
    """As a clock that was set from 1970 to the present leaves them."""
    long = replace(record(step("a.o", 0, 9_000_000_000)), samples=((0.0, 0), (9e9, 0)))
    made = render_page(long, analyse_record(long, ""))
    assert made.count('class="grid"') <= 22
    assert "<h2>Memory</h2>" in made


def test_many_steps_at_once_have_thin_rows() -> None:
    many = record(*(step(f"{number}.o", 0, 60) for number in range(64)))
    made = render_page(many, analyse_record(many, ""))
    assert '<svg viewBox="0 0 1130 604"' in made
    assert "Not known: ninja could not be asked" in made
