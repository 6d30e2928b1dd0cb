"""The report's page: whole, escaped, and with the largest steps first."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from progress.test_record import BUILD, WHOLE
from torchwheel.cli.status import component_of_step, render_page, seconds_of_steps
from torchwheel.progress.build_record import TimedStep

EVIL = """<script>alert(1)</script>&"'${title}.cpp"""
RECORD = replace(
    WHOLE,
    build=replace(BUILD, name="torch<b>.whl", tree="/a<tree>"),
    started=0.0,
    steps=(
        TimedStep("CMakeFiles/k.dir/gen.h", None, 0, 4),
        TimedStep("CMakeFiles/k.dir/a.o", EVIL, 4, 400, 2 << 30, hit=True),
        TimedStep("lib/liba.so", None, 1000, 1002, 70 << 20),
    ),
)


class _Elements(HTMLParser):
    """Sees that what is opened is closed, and keeps the text of each kind of element."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)


def test_the_page_is_whole_and_what_comes_from_files_is_text() -> None:
    made = render_page(RECORD)
    found = _Elements()
    found.feed(made)
    found.close()
    assert found.open == []
    assert "script" not in found.texts
    assert not re.search(r"https?:|url\(|@import", made)
    assert (found.texts["title"], found.texts["h1"]) == (["torch<b>.whl"], ["torch<b>.whl"])
    # The tree, the slowest steps, the components, and the steps that took the most memory.
    assert found.texts["code"] == [
        "/a<tree>", EVIL, "CMakeFiles/k.dir/gen.h", "lib/liba.so", "k (2 steps)", "a (1 step)", EVIL, "lib/liba.so",
    ]  # fmt: skip
    assert found.texts["td"] == [
        "6 min 36 s", "2.1 GB", "4.0 s", "2.0 s", "73.4 MB", "6 min 40 s", "2.1 GB", "2.0 s", "73.4 MB",
        "6 min 36 s", "2.1 GB", "2.0 s", "73.4 MB",
    ]  # fmt: skip
    assert "1 of 1 from the compiler cache" in made


def test_a_build_without_steps_has_a_page_too() -> None:
    assert "<p>No step is recorded.</p>" in render_page(replace(RECORD, steps=()))


def test_time_between_two_builds_does_not_count() -> None:
    steps = [
        TimedStep(f"{start}", None, start, end) for start, end in ((5, 9), (0, 10), (8, 12), (1000, 1003))
    ]
    assert seconds_of_steps(steps) == 15


@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("aten/CMakeFiles/torch_cpu.dir/__/a.cpp.o", "torch_cpu"),
        ("lib/libtorch_cpu.so", "torch_cpu"),
        ("lib/_C.cpython-311-x86_64-linux-gnu.so", "_C"),
        ("bin/test_operators", "test_operators"),
        ("aten/src/ATen/Functions.h", "aten/src/ATen/"),
    ],
)
def test_the_component_is_in_the_name(output: str, part: str) -> None:
    assert component_of_step(output) == part
