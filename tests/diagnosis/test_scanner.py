"""Choosing the first cause, in one pass, in bounded memory and time."""

from __future__ import annotations

import io
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchwheel.diagnosis import Diagnosis, LogLine, Outcome, diagnose
from torchwheel.diagnosis.decoding import CHUNK_BYTES
from torchwheel.diagnosis.scanner import ERROR_LINES, EXCERPT_LINES, LINES_PER_NEEDLE

KILLED = b"c++: fatal error: Killed signal terminated program cc1plus\n"
FULL = b"fatal error: error writing to /tmp/cc2mYx0T.s: No space left on device\n"
SHM = b"FAILED: bin/torch_shm_manager\n"
FLASH = b"FAILED: kernels/flash_bwd_hdim128_bf16_sm80.cu.o\n"
PROGRESS = b"[12/345] Building CXX object caffe2/a.cpp.o\n"


def ids(diagnosis: Diagnosis) -> list[str]:
    found = [diagnosis.cause] if diagnosis.cause else []
    return [one.entry.id for one in (*found, *diagnosis.consequences)]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (KILLED + FULL, ["compiler-out-of-memory", "no-space-left"]),
        (FULL + KILLED, ["no-space-left", "compiler-out-of-memory"]),
        (SHM + KILLED, ["compiler-out-of-memory", "shm-manager-link"]),
        (FLASH + SHM, ["shm-manager-link", "flash-attention-compile"]),
        (FLASH + SHM + FULL, ["no-space-left", "flash-attention-compile", "shm-manager-link"]),
        (PROGRESS, []),
        (b"", []),
    ],
)
def test_highest_rank_then_earliest_line(log: bytes, expected: list[str]) -> None:
    assert ids(diagnose([log])) == expected


def test_what_is_known_of_the_place() -> None:
    diagnosis = diagnose([PROGRESS * 9 + KILLED + PROGRESS * 9 + KILLED * 2])
    assert (diagnosis.lines, diagnosis.bytes) == (21, 18 * len(PROGRESS) + 3 * len(KILLED))
    cause = diagnosis.cause
    assert cause is not None
    assert cause.line == LogLine(10, KILLED.decode().strip())
    assert cause.count == 3
    assert dict(cause.captures) == {"program": "cc1plus"}
    progress = "Building CXX object caffe2/a.cpp.o"
    assert cause.excerpt == (
        *(LogLine(n, progress) for n in range(10 - EXCERPT_LINES, 10)),
        cause.line,
        *(LogLine(n, progress) for n in range(11, 11 + EXCERPT_LINES)),
    )


def test_unknown_failures_show_the_first_error_lines() -> None:
    log = PROGRESS + b"a.cpp:1:2: error: 'x' was not declared\n" + PROGRESS + b"b.cpp:3:4: error: no\n" * 9
    diagnosis = diagnose([log])
    assert diagnosis.outcome is Outcome.UNKNOWN
    assert [error.line.number for error in diagnosis.errors] == [2, 4, 5, 6, 7]
    assert len(diagnosis.errors) == ERROR_LINES
    assert [line.number for line in diagnosis.errors[0].excerpt] == [1, 2, 3, 4, 5, 6]


def test_known_failures_hide_the_error_lines() -> None:
    assert diagnose([b"a.cpp:1:2: error: 'x' was not declared\n" + KILLED]).errors == ()


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (KILLED + b"Successfully built torch\n", []),
        (b"Successfully built numpy\n" + KILLED, ["compiler-out-of-memory"]),
        (KILLED + b"Successfully built numpy\nFailed to build torch\n", ["compiler-out-of-memory"]),
        (FULL + b"Failed to build torch\n" + b"Successfully built torch\n", []),
        (FULL + b"Successfully built torch\n" + KILLED, ["compiler-out-of-memory"]),
        (KILLED + b"Successfully built torch\n" + KILLED, ["compiler-out-of-memory"]),
        (
            FULL + b"Successfully built torch\n" + PROGRESS * 9 + KILLED + b"Failed to build torch\n",
            ["compiler-out-of-memory"],
        ),
        (
            b"ImportError: libcudart.so.12: cannot open shared object file\nSuccessfully built x\n",
            ["cudart-not-found"],
        ),
        (b"error: it broke\nSuccessfully built torch\n", []),
    ],
)
def test_a_build_that_ends_well_settles_what_came_before(log: bytes, expected: list[str]) -> None:
    diagnosis = diagnose([log])
    assert ids(diagnosis) == expected
    assert diagnosis.outcome is (Outcome.KNOWN if expected else Outcome.CLEAN)


def test_context_is_needed_nearby() -> None:
    near = b"IndexError: list index out of range\n"
    frame = b"  File cpp_extension.py, line 2074, in _get_cuda_arch_flags\n"
    assert ids(diagnose([frame + b"    x\n" * 20 + near])) == ["no-gpu-and-no-architectures"]
    assert ids(diagnose([frame + b"    x\n" * 200 + near])) == []
    assert ids(diagnose([near + b"    x\n" * 20 + frame])) == ["no-gpu-and-no-architectures"]


def test_long_command_lines_do_not_hide_what_is_in_them() -> None:
    line = b"[1/9] " + b"-Ifoo " * 5000 + KILLED.strip() + b" -Ifoo" * 5000 + b"\n"
    assert ids(diagnose([line])) == ["compiler-out-of-memory"]


@given(st.integers(0, 2 * CHUNK_BYTES // len(PROGRESS)))
@settings(max_examples=25, deadline=None)
def test_the_place_in_the_log_does_not_matter(before: int) -> None:
    diagnosis = diagnose([PROGRESS * before + KILLED + PROGRESS * 9000])
    assert diagnosis.cause is not None
    assert diagnosis.cause.line.number == before + 1
    first = max(1, before + 1 - EXCERPT_LINES)
    assert [line.number for line in diagnosis.cause.excerpt] == list(range(first, before + 2 + EXCERPT_LINES))


@given(st.binary(max_size=3000))
@settings(deadline=None)
def test_arbitrary_bytes_never_raise(content: bytes) -> None:
    diagnosis = diagnose(io.BytesIO(content))
    assert diagnosis.bytes == len(content)


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


def test_a_message_repeated_without_end_costs_bounded_time() -> None:
    line = b"a.o:(.text+0x1): undefined reference to `foo::bar(int)'\n"
    start = time.process_time()
    diagnosis = diagnose(line * 10_000 for _ in range(40))
    assert diagnosis.lines == 400_000 > LINES_PER_NEEDLE
    assert diagnosis.outcome is Outcome.UNKNOWN
    assert time.process_time() - start < 20


def test_another_catalogue_can_be_given() -> None:
    assert ids(diagnose([KILLED], ())) == []
