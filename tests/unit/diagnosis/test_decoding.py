"""From bytes to whole lines in UTF-8, and to lines freed of what tools and CI systems put around them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.diagnosis import frames
from torchwheel.diagnosis.decoding import (
    CHUNK_BYTES,
    LONGEST_LINE_BYTES,
    LONGEST_TEXT,
    clean_text,
    line_blocks,
    read_chunks,
)
from torchwheel.diagnosis.frames import learn_frames, remove_frames
from torchwheel.system.toml import read_toml

PREFIXES = read_toml(Path(frames.__file__).with_name("prefixes.toml"))["prefix"]
TEXT = "-- Datei für Größe\nerror: 找不到指定的模块\nend\n"


def lines_of(*chunks: bytes) -> bytes:
    return b"".join(line_blocks(read_chunks(chunks)))


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r\r\n").encode(),
        b"\xff\xfe" + TEXT.encode("utf-16-le"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        TEXT.replace("\n", "\n\x1b_bk;t=1700000000000\x07")
        .removesuffix("\x1b_bk;t=1700000000000\x07")
        .encode(),
        "\x1b[31m-- Datei\x1b[0m für Größe\n\x1b]0;title\x07error:\x1b[K 找不到指定的模块\x1b(B\nend\n".encode(),
    ],
)
def test_the_same_text_comes_out_of_every_form(content: bytes) -> None:
    assert lines_of(content) == TEXT.encode()


def test_ascii_survives_where_the_encoding_changes() -> None:
    assert lines_of(b"first\n" * 1000 + "second\n".encode("utf-16-le")) == b"first\n" * 1000 + b"second\n"


def test_other_encodings_pass_through() -> None:
    assert lines_of("größer\n".encode("latin-1")) == b"gr\xf6\xdfer\n"


@given(st.lists(st.binary(max_size=50)))
def test_chunks_do_not_depend_on_how_the_bytes_arrive(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert list(read_chunks(pieces)) == list(read_chunks(io.BytesIO(whole))) == ([whole] if whole else [])


def test_chunks_are_bounded() -> None:
    sizes = [len(chunk) for chunk in read_chunks([b"x" * (2 * CHUNK_BYTES + 3)])]
    assert sizes == [CHUNK_BYTES, CHUNK_BYTES, 3]


def test_blocks_end_at_line_ends() -> None:
    line = b"y" * 1000 + b"\n"
    content = line * 1000
    blocks = list(line_blocks(read_chunks([content])))
    assert b"".join(blocks) == content
    assert len(blocks) > 2
    assert all(block.endswith(b"\n") for block in blocks)


def test_endless_lines_are_cut() -> None:
    content = b"z" * (2 * LONGEST_LINE_BYTES)
    blocks = list(line_blocks(read_chunks([content])))
    assert b"".join(blocks) == content
    assert max(map(len, blocks)) <= LONGEST_LINE_BYTES + CHUNK_BYTES


@pytest.mark.parametrize("prefix", PREFIXES, ids=lambda prefix: prefix["tool"])
def test_every_prefix_comes_off(prefix: dict[str, str]) -> None:
    assert remove_frames(prefix["example"] + "error: it broke") == "error: it broke"
    assert remove_frames("      " + prefix["example"] + prefix["example"] + "it broke") == "it broke"


WITHOUT_PREFIX = """\
    raise OSError('CUDA_HOME')
/usr/include/math.h:12:3: error: it broke
C:\\dev\\pytorch\\c10\\a.cpp(12): fatal error C1060: compiler is out of heap space
make[2]: *** [foo.o] Error 1
FAILED: foo.o
12 errors detected
E: Unable to locate package
""".splitlines()


def test_a_line_without_prefix_stays() -> None:
    assert [text for text in WITHOUT_PREFIX if clean_text(text.encode()) != text] == []


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"[1/9] Building a.o\r[2/9] Building b.o\rerror: it broke", "error: it broke"),
        (b"error: it broke\r", "error: it broke"),
        (b"\r\r", ""),
        (b"[01;31merror: [m[Kit [1mbroke[0m", "error: it broke"),
        (b"ld terminated with signal 9 [Killed]", "ld terminated with signal 9 [Killed]"),
        (b"bell\x07 and\x00 zero", "bell and zero"),
        (b"a\tb  ", "a\tb"),
        ("größer".encode("latin-1"), "gr��er"),
        (b"x" * 9000, "x" * LONGEST_TEXT),
        (
            b"2026-06-27T19:59:59.0879266Z #24 11.24   \xe2\x94\x82 [12/345] nvcc fatal   : it broke",
            "nvcc fatal   : it broke",
        ),
    ],
)
def test_clean(raw: bytes, text: str) -> None:
    assert clean_text(raw) == text


@pytest.mark.parametrize(
    "lines",
    [
        ["/usr/bin/ld: libtorch_cpu.so: undefined reference to `f'"] * 9,
        ["ERROR: Could not find a version", "ERROR: No matching distribution found"],
        ["a.cpp:1:2: error: no", "a.cpp:3:4: error: no", "a.cpp:5:6: note: no"],
        [
            "make: Entering directory '/b'",
            "make: *** [Makefile:2: all] Error 1",
            "make: Leaving directory '/b'",
        ],
        ["CMake Error at a.cmake:3 (message):", "CMake Error at b.cmake:5 (message):"],
        ["torchwheel: copying 3 files", "torchwheel: building", "torchwheel: done"],
        [
            "distcc[4711] ERROR: timeout while connecting to 10.0.0.9",
            "distcc[4711] (dcc_build) ERROR: failed",
        ],
        [
            "ICECC[7] 2026-11-22 17:17:55: couldn't find any g++-9",
            "ICECC[7] 2026-11-22 17:17:55: could not find g++-9 in PATH",
        ],
    ],
)
def test_what_tools_say_in_every_line_is_no_frame(lines: list[str]) -> None:
    assert [remove_frames(line, learn_frames(lines)) for line in lines] == lines


@pytest.mark.parametrize("frame", ["12>", "torch-cu130\t", "[1,0]<stderr>:", "[default0]:"])
def test_the_indentation_of_most_lines_is_no_part_of_a_frame(frame: str) -> None:
    texts = [
        "c++ -c a.cpp",
        '"quoted" words',
        "x = 3;",
        "(see below)",
        "$ ls",
        "three plain words",
        "/usr/bin/ld",
    ]
    lines = [f"-- found {number}" for number in range(4)] + [f"  {text}" for text in 10 * texts]
    frames = learn_frames([frame + line for line in lines])
    assert [remove_frames(frame + line, frames) for line in lines] == lines


def test_frames_are_learned_again_where_they_change() -> None:
    first = learn_frames([f"[a : b] line {number}" for number in range(9)])
    assert remove_frames("[a : b]   indented", first) == "  indented"
    assert learn_frames(["[a : b] x", "[a : b] y"], first) is first
    later = learn_frames([f"{number:03} @ {number}" for number in range(30)], first)
    assert (remove_frames("017 @   x", later), remove_frames("[a : b]   y", later)) == ("  x", "  y")
