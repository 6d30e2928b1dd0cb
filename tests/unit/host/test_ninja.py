"""Ninja's log and its status lines."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path

from put import append, put
from torchwheel.host.ninja import Ended, NinjaLog, configure_inputs, parse_progress, read_dependencies

HEAD = "# ninja log v7\n"


def test_the_log_is_followed_as_it_grows(tmp_path: Path) -> None:
    log, file = NinjaLog(tmp_path), tmp_path / ".ninja_log"
    assert log.read_new_steps() == []
    file.write_text(f"{HEAD}5\t243\t17\ta.o\tab12\n11\t16")
    assert log.read_new_steps() == [Ended(("a.o",), 5, 243)]
    append(file, "88\t18\tb.h\tcd\n11\t1688\t18\tb.cpp\tcd\nno\tline\n")
    assert log.read_new_steps() == [Ended(("b.h", "b.cpp"), 11, 1688)]
    assert log.read_new_steps() == []


def test_a_log_written_anew_tells_only_what_changed(tmp_path: Path) -> None:
    log, file = NinjaLog(tmp_path), tmp_path / ".ninja_log"
    file.write_text(f"{HEAD}5\t243\t17\ta.o\tab\n6\t7\t18\tb.o\tab\n")
    assert len(log.read_new_steps()) == 2
    new = put(tmp_path / "new", f"{HEAD}5\t243\t17\ta.o\tab\n0\t9\t20\tb.o\tab\n")
    new.replace(file)
    assert log.read_new_steps() == [Ended(("b.o",), 0, 9)]
    file.write_text(HEAD)
    assert log.read_new_steps() == []
    file.write_text(f"{HEAD}1\t2\t30\ta.o\tab\n")
    assert log.read_new_steps() == [Ended(("a.o",), 1, 2)]


def test_only_ninja_s_own_lines_count_steps() -> None:
    assert parse_progress(b"[12/345] Building CXX object a.o") == (12, 345)
    assert parse_progress(b"[ 3/345] Linking") == (3, 345)
    for line in (b"", b"[12/345]", b" [1/2] x", b"[100%] Building", b"warning: [1/2] x", b"[-1/2] x"):
        assert parse_progress(line) is None


def test_a_damaged_log_of_dependencies_tells_what_it_can(tmp_path: Path) -> None:
    words = (8, 0x6F2E61, 0xFFFFFFFF, 1 << 31, 12 | 1 << 31, 0, 1, 0)
    (tmp_path / ".ninja_deps").write_bytes(b"# ninjadeps\n" + struct.pack("=9I", 4, *words))
    assert read_dependencies(tmp_path) == (["a.o"], [("a.o", array("i"))])


def test_windows_line_ends_are_no_part_of_a_path(tmp_path: Path) -> None:
    """As CMake writes build.ninja there."""
    text = "build a.obj: CXX C$:/k.cpp\nbuild k.pyd: LINK a.obj | C$:/x.lib\nbuild build.ninja: RERUN_CMAKE | C$:/t\n"
    (tmp_path / "build.ninja").write_text(text, newline="\r\n")
    assert configure_inputs(tmp_path) == ["C:/t"]
    assert read_dependencies(tmp_path) == (
        ["C:/k.cpp", "a.obj", "C:/x.lib"],
        [("a.obj", [0]), ("k.pyd", [1, 2])],
    )
