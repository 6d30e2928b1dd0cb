"""From bytes to whole lines in UTF-8."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.diagnosis.decoding import CHUNK_BYTES, LONGEST_LINE_BYTES, line_blocks, read_chunks

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
