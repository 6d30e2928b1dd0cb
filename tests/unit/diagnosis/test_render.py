"""A diagnosis as text and as data."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from torchwheel.diagnosis.diagnosis_page import render, to_dict
from torchwheel.diagnosis.facts import Facts
from torchwheel.diagnosis.scanner import diagnose

MEMORY_LOG = b"""\
[1/3] Building CXX object a.cpp.o
FAILED: a.cpp.o
c++: fatal error: Killed signal terminated program cc1plus
compilation terminated.
FAILED: bin/torch_shm_manager
c++: fatal error: Killed signal terminated program cc1plus
"""

MEMORY_TEXT = """\
the system killed cc1plus for lack of memory, at a.cpp  [compiler-out-of-memory]

  1 | Building CXX object a.cpp.o
  2 | FAILED: a.cpp.o
> 3 | c++: fatal error: Killed signal terminated program cc1plus
  4 | compilation terminated.
  5 | FAILED: bin/torch_shm_manager
  6 | c++: fatal error: Killed signal terminated program cc1plus
  and 1 line more

Too many compilers ran at once for the memory that this machine or container
has. g++ takes 1 to 2 GB on PyTorch's largest files.

What to change:
  1. build with fewer jobs at once: `-C jobs=2` (without it torchwheel computes
     them from the usable memory), and 1 if that is still too many; ninja, make
     and `cmake --build` themselves take `-j 2`
  2. add swap on the machine: `sudo fallocate -l 16G /swapfile && sudo chmod 600
     /swapfile && sudo mkswap /swapfile && sudo swapon /swapfile` (Docker
     Desktop: Settings, Resources), and build again

More:
  https://github.com/pytorch/pytorch/issues/49078
  https://github.com/pytorch/pytorch/issues/124018

Also in this log, because of it:
  line 5: torch_shm_manager does not link  [shm-manager-link]"""

CLASSIFIED_TEXT = """\
a.cpp does not compile: 'x' was not declared  [source-error]

  1 | Building CXX object a.cpp.o
> 2 | a.cpp:1:2: error: 'x' was not declared
  3 | b.cpp:1:2: error: 'y' was not declared

Line 1 of it does not compile with the compiler, options and headers of this
build.

What to change:
  1. your own source: correct it there; a project's: its newest release or
     commit, which knows this compiler, CUDA and torch
  2. or the compiler, CUDA and torch that this very release names in its README
     or CI

Also in this log:
  line 3: b.cpp does not compile: 'y' was not declared  [source-error]"""


def test_a_known_failure() -> None:
    assert render(diagnose([MEMORY_LOG], facts=Facts())) == MEMORY_TEXT


def test_all_fixes_are_shown_where_they_are_asked_for() -> None:
    found = diagnose(
        [b"rocBLAS error: Cannot read /x/TensileLibrary.dat: Illegal seek for GPU arch : gfx900"]
    )
    two, every = render(found), render(found, every_fix=True)
    assert "  3. " not in two and "`torchwheel diagnose --all` has 1 more" in two
    assert "  3. " in every and "--all" not in every


def test_a_classified_failure() -> None:
    log = b"Building CXX object a.cpp.o\na.cpp:1:2: error: 'x' was not declared\nb.cpp:1:2: error: 'y' was not declared"
    assert render(diagnose([log], facts=Facts())) == CLASSIFIED_TEXT


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (b"", "The file is empty."),
        (b"\x7fELF\x02", "The file is no text."),
        (b"[2/2] Linking a.so\n", "No failure in 1 line: it ended well."),
        (
            b"one\n\ntwo\n",
            "Not known here: 3 lines show neither a failure nor the end of work that went\n"
            "well. The last lines:\n  1 | one\n  3 | two",
        ),
    ],
)
def test_no_failure(log: bytes, text: str) -> None:
    assert render(diagnose([log])) == text


def test_data() -> None:
    data = to_dict(diagnose([MEMORY_LOG]))
    assert {key: data[key] for key in ("schema", "outcome", "lines", "bytes")} == {
        "schema": 3,
        "outcome": "failed",
        "lines": 6,
        "bytes": len(MEMORY_LOG),
    }
    cause = data["cause"]
    assert {key: cause[key] for key in ("id", "phase", "rank", "captures", "line", "count", "applies")} == {
        "id": "compiler-out-of-memory",
        "phase": "compile",
        "rank": 3,
        "captures": {"program": "cc1plus", "file": "a.cpp"},
        "line": 3,
        "count": 2,
        "applies": {},
    }
    assert cause["excerpt"][0] == {"number": 1, "text": "Building CXX object a.cpp.o"}
    assert [(one["id"], one["consequence"]) for one in data["others"]] == [("shm-manager-link", True)]


def test_a_long_line_is_cut_but_never_where_the_cause_stands() -> None:
    symbol = "at::native::" + "nested::" * 20 + "function(at::Tensor const&)"
    log = f"/usr/bin/ld: a.o: in function `f':\n{'x' * 300}\na.cpp:(.text+0x1): undefined reference to `{symbol}'\n"
    text = render(diagnose([log.encode()]), 80)
    assert symbol in text
    assert "x" * 300 not in text
    assert "x" * 300 in render(diagnose([log.encode()]), None)


FATAL_ERROR = """\
-- Looking
CMake Error at cmake/frob.cmake:12 (message):
  The frobnicator is missing, and without it there is nothing that could be done about the widgets.

  It was looked for in:

    /opt/frob



  Set FROB_ROOT.
Call Stack (most recent call first):
  CMakeLists.txt:40 (include)


-- Configuring incomplete, errors occurred!
"""

FATAL_ERROR_TEXT = """\
   1 | -- Looking
>  2 | CMake Error at cmake/frob.cmake:12 (message):
   3 |   The frobnicator is missing, and without it there is nothing that could
     |   be done about the widgets.
   4 |
   5 |   It was looked for in:
   6 |
   7 |     /opt/frob
   8 |
   9 |
  10 |
  11 |   Set FROB_ROOT.
"""


def test_what_cmake_said_is_quoted_whole() -> None:
    assert FATAL_ERROR_TEXT + "\n" in render(diagnose([FATAL_ERROR.encode()]))


def test_the_cause_is_coloured_where_that_is_asked_for() -> None:
    diagnosis = diagnose([FATAL_ERROR.encode()])
    coloured = render(diagnosis, colour=True).splitlines()
    assert coloured[1] == "\x1b[1;31mcould be done about the widgets.  [cmake-error]\x1b[0m"
    assert [line for line in coloured[2:] if "\x1b" in line] == ["\x1b[1mWhat to change:\x1b[0m"]
    assert render(diagnose([b"done"]), colour=True) == "\x1b[32mNo failure in 1 line: it ended well.\x1b[0m"


def test_what_a_log_says_is_one_word_in_a_command() -> None:
    """A stranger's log would have its reader run what it names."""
    said = b'  Could not find a package configuration file provided by "NUMA"\n'
    log = b"CMake Error at a.cmake:1 (find_package):\n" + said
    cause = diagnose(io.BytesIO(log), facts=Facts()).cause
    assert cause is not None
    for name, typed in (("NUMA", "NUMA"), ("$(touch PWN)", "'$(touch PWN)'")):
        change = replace(cause, captures={"package": name}).change
        assert any(f"`-C define.{typed}_ROOT=DIR`" in text for text in change)
