"""Choosing the first cause, in one pass, in bounded memory and time.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from torchwheel.diagnosis.scanner import diagnose
from unit.diagnosis.test_scanner import FULL, KILLED, PROGRESS, SHM, ids

SNIPPETS = st.sampled_from(
    [
        KILLED,
        FULL,
        SHM,
        PROGRESS,
        b"\x1b[31m",
        b"\r",
        b"\n",
        b"\x00",
        b"\xff\xfe",
        b"CMake Error at ",
        b"12>",
        b"\xe9",
    ]
)


@given(st.lists(SNIPPETS, max_size=40), st.integers(1, 50))
@settings(deadline=None)
def test_chunks_of_any_size_give_the_same_diagnosis(snippets: list[bytes], size: int) -> None:
    log = b"".join(snippets)
    pieces = [log[i : i + size] for i in range(0, len(log), size)]
    assert diagnose(pieces) == diagnose(io.BytesIO(log))


def test_memory_is_bounded() -> None:
    def stream() -> Iterator[bytes]:
        for _ in range(30_000):
            yield PROGRESS * 20

    tracemalloc.start()
    diagnosis = diagnose(stream())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert diagnosis.bytes > 25_000_000
    assert peak < 8_000_000


def test_a_message_repeated_without_end_is_found() -> None:
    line = b"a.o:(.text+0x1): undefined reference to `foo::bar(int)'\n"
    diagnosis = diagnose(line * 10_000 for _ in range(40))
    assert diagnosis.lines == 400_000
    assert ids(diagnosis) == ["undefined-symbol"]
