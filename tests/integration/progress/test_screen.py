"""What is seen of a build: a bar on a terminal, a line now and then elsewhere, and whole errors everywhere."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path

import pytest

from places import SUPPORT, TESTS
from progress.test_record import WHOLE
from torchwheel.progress import follow
from torchwheel.progress.build_record import Running, TimedStep

BUSY = replace(
    WHOLE,
    finished=1234,
    total=5000,
    left=None,
    guess=False,
    memory=3 << 30,
    running=(Running("a.o", "aten/a.cpp", 1000.0, 1 << 30), Running("lib/b.so", None, 1100.0, 2 << 20)),
    steps=(
        TimedStep("c.o", "c.cpp", 1001.0, 1002.0, hit=True),
        TimedStep("d.o", "d.cpp", 1001.0, 1002.0, hit=False),
    ),
)


def test_progress_in_one_line() -> None:
    assert replace(BUSY, left=8000.0).describe_progress(1125.0) == (
        "1,234 of 5,000 steps (24 %), about 2 h 13 min left, 3.2 GB of memory, 1 of 2 from the compiler cache; "
        "aten/a.cpp since 2 min 5 s"
    )
    assert replace(BUSY, left=8000.0, guess=True, memory=None, steps=()).describe_progress(1030.0) == (
        "1,234 of 5,000 steps (24 %), about 2 h 10 min left, a guess"
    )
    assert replace(BUSY, memory=None, steps=()).describe_progress(1030.0) == "1,234 of 5,000 steps (24 %)"


def test_a_build_of_extensions_names_what_it_compiles() -> None:
    """Two CUDA files took nine minutes, of which nothing was seen: ninja counts when a step ends."""
    extensions = replace(BUSY, build=replace(BUSY.build, of_extensions=True), memory=None, steps=())
    assert replace(extensions, finished=0, total=0).describe_progress(1125.0) == (
        "the first steps; aten/a.cpp since 2 min 5 s, lib/b.so since 25 s"
    )
    # What only kinds of PyTorch's own files tell is no estimate here.
    guessed = replace(extensions, finished=1, total=3, left=10.0, guess=True, running=())
    assert guessed.describe_progress(1125.0) == "1 of 3 steps (33 %)"
    known = replace(guessed, guess=False)
    assert "left" in known.describe_progress(1125.0)


ERROR = b"a.cpp:1:1: error: no\n  here\n"


def test_a_line_now_and_then_comes_before_ninja_s_lines_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "SECONDS_BETWEEN_LINES", 0.0)
    with follow.open_screen() as shown:
        for text in (b"-- Configuring done\n", b"[1/5] Building a.o\n", *ERROR.splitlines(keepends=True)):
            shown.show_line(text)
            shown.show_progress(replace(BUSY, finished=1, total=5, running=()))
        shown.show_line(b"[2/5] Building b.o\n")
        shown.show_progress(replace(BUSY, finished=5, total=5))
        shown.show_line(b"[5/5] Linking\n")
    assert capsys.readouterr().out.splitlines() == [
        "-- Configuring done",
        "torchwheel: 1 of 5 steps (20 %), 3.2 GB of memory, 1 of 2 from the compiler cache",
        "[1/5] Building a.o",
        "a.cpp:1:1: error: no",
        "  here",
        "torchwheel: 1 of 5 steps (20 %), 3.2 GB of memory, 1 of 2 from the compiler cache",
        "[2/5] Building b.o",
        "[5/5] Linking",
    ]


def test_it_comes_after_a_pause_too_and_not_more_often_than_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_SECONDS_OF_PAUSE", 0.0)
    with follow.open_screen() as shown:
        shown.show_progress(BUSY)
        monkeypatch.setattr(shown, "_due", 0.0)
        shown.show_progress(BUSY)
        shown.show_progress(BUSY)
    assert capsys.readouterr().out.count("torchwheel: 1,234 of 5,000 steps") == 1


_BUILD = """\
import os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from progress.test_follow import ninja_folder, run_ninja
from torchwheel.engine.process import ProcessFailed
here = Path({folder!r})
quick = "open('{{}}', 'w').close()"
slow = (
    "import pathlib, time\\n"
    "for _ in range(600):\\n"
    "    if pathlib.Path({seen!r}).exists(): break\\n"
    "    time.sleep(0.1)\\n"
    "open('{{}}', 'w').close()"
)
loud = "print('warning: \\x1b[35mloud\\x1b[0m'); open('{{}}', 'w').close()"
bad = "print('error: one'); print('  two'); raise SystemExit(1)"
build = ninja_folder(here, {{"a.o": quick, "b.o": loud, "c.o": slow, "d.o": bad, "e.o": slow}})
try:
    run_ninja(build, here / "record.json")
except ProcessFailed:
    pass
print("the end")
"""


def on_a_terminal(folder: Path, columns: int, *awaited: str, **variables: str) -> str:
    """What a build writes to a terminal of so many columns; its slow steps end when the awaited lines are there."""
    seen = folder.with_name("seen")
    code = _BUILD.format(folder=str(folder), seen=str(seen), path=[str(SUPPORT), str(TESTS / "integration")])
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")
    }
    environment = {**plain, "TERM": "xterm", "PYTHONUTF8": "1", **variables}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 1 << 16):
                text += part
                lines = _ESCAPE.sub("", text.decode(errors="replace")).splitlines()
                if all(any(re.match(pattern, line) for line in lines) for pattern in awaited):
                    seen.touch()
        except OSError:
            # Linux says EIO when the last writer has closed a terminal.
            pass
    os.close(ours)
    assert process.returncode == 0, text.decode()
    return text.decode()


_ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_FRAME = re.compile(r"\d/5  | +\d+ s +[\d.]+ [kM]?B  ")
_NARROW = re.compile(r"\d+ s  ")
_COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;[\d;]+)m")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a terminal of Linux, and at /proc")
def test_a_terminal_has_a_bar_below_what_is_worth_reading(tmp_path: Path) -> None:
    bar = r"2/5  ━+╸?╺?━*  40 %, about \d+ s left, a guess, [\d.]+ MB of memory"
    step = r" +\d+ s +[\d.]+ MB  c\.o\.py"
    text = on_a_terminal(tmp_path / "wide", 100, bar, step, CLICOLOR_FORCE="1")
    shown = [one for one in _ESCAPE.sub("", text).splitlines() if one]
    for awaited in (bar, step):
        assert any(re.match(awaited, one) for one in shown), shown
    # A frame is written again below each line, and wiped again.
    shown = [one for one in shown if not _FRAME.match(one)]
    # Ninja's own lines are shown where something follows them.
    kept = [one for one in shown if one.startswith("[")]
    assert [one.partition(" ")[0] for one in kept] == ["[2/5]", "[4/5]"]
    assert shown[shown.index(kept[0]) + 1].startswith("warning: loud")
    failed = shown.index(next(one for one in shown if one.startswith("FAILED")))
    assert shown[failed + 2 : failed + 4] == ["error: one", "  two"]
    assert shown[-1] == "the end"
    assert "warning: \x1b[35mloud\x1b[0m" in text
    # The cursor is back.
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a terminal of Linux, and at /proc")
def test_a_narrow_terminal_and_one_without_colours(tmp_path: Path) -> None:
    bar, step = r"2/5  40 %, ", r"\d+ s  c\.o\.py$"
    text = on_a_terminal(tmp_path / "narrow", 30, bar, step, NO_COLOR="1")
    assert not _COLOUR.search(text)
    shown = [one for one in _ESCAPE.sub("", text).splitlines() if one]
    frames = [one for one in shown if _FRAME.match(one)]
    assert any(re.match(bar, one) for one in frames)
    assert all(len(one) <= 30 for one in shown if _FRAME.match(one) or _NARROW.match(one)), shown
    # What is made, and since when.
    assert any(re.match(step, one) for one in shown), shown


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a terminal of Linux")
def test_a_dumb_terminal_has_lines_alone(tmp_path: Path) -> None:
    text = on_a_terminal(tmp_path / "dumb", 100, TERM="dumb")
    assert "\x1b" not in text
    assert [one[:5] for one in text.splitlines() if one.startswith("[")] == [
        "[1/5]",
        "[2/5]",
        "[3/5]",
        "[4/5]",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a terminal of Linux")
def test_a_terminal_that_is_closed_ends_nothing(tmp_path: Path) -> None:
    """As after `disown`: nobody ends the build, and what it says is read by nobody."""
    done = tmp_path / "done"
    code = f"""
import sys, time
from pathlib import Path
from torchwheel.progress.follow import open_screen
from torchwheel.reporting.terminal import forward, open_standard_streams
open_standard_streams()
with open_screen() as shown:
    shown.show_line(b"begins\\n")
    sys.stdin.read()
    for _ in range(3):
        shown.show_line(b"goes on\\n")
        time.sleep(0.3)
print("says something", flush=True)
forward(b"and a line\\n")
print("at the end")
sys.stdout.flush()
Path({str(done)!r}).touch()
"""
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=theirs, stderr=subprocess.PIPE, env=environment
    ) as process:
        os.close(theirs)
        assert b"begins" in os.read(ours, 1 << 16) + os.read(ours, 1 << 16)
        os.close(ours)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said, done.exists()) == (0, b"", True)
