"""Which of a log's errors is the cause, whatever harmless lines and consequences stand around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from torchwheel.diagnosis import scanner
from torchwheel.diagnosis.failures import Outcome, Phase, read_catalogue
from torchwheel.diagnosis.grammar import read_classes
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.system.toml import read_toml

EXPLAINS = read_toml(Path(scanner.__file__).with_name("explains.toml"))["explains"]


def cause(lines: Sequence[str]) -> str:
    found = diagnose(["\n".join(lines).encode() + b"\n"])
    return found.cause.entry.id if found.cause else found.outcome.value


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        # CMake goes on without a default architecture, and the script goes on after CMake.
        (
            "CMake Error in CMakeLists.txt:\n  CUDA_ARCHITECTURES is empty for target \"a\".\n\n\n"
            "CMake Generate step failed.  Build files cannot be regenerated correctly.\n"
            "ninja: error: loading 'build.ninja': No such file or directory\n",
            "cmake-cuda-architectures-empty",
        ),
        # The step keeps its own log.
        (
            "CMake Error at /b/s-prefix/src/s-stamp/s-build-.cmake:49 (message):\n  Command failed: 2\n\n"
            "  See also\n\n    /b/s-prefix/src/s-stamp/s-build-*.log\n\n\n"
            "make: *** [Makefile:91: all] Error 2\ncp: cannot stat 'b/s.a': No such file or directory\n",
            "build-stopped",
        ),
        # A traceback that is caught, and then a failure.
        (
            "Traceback (most recent call last):\n  File \"setup.py\", line 3, in <module>\nKeyError: 'x'\n"
            "building without x\na.cpp:3:1: error: expected ';' at end of input\n"
            "error: command '/usr/bin/g++' failed with exit code 1\n",
            "source-error",
        ),
        # A traceback that ends a step of ninja's, and another failure later.
        (
            "FAILED: gen.cpp\npython gen.py\nTraceback (most recent call last):\n"
            "  File \"gen.py\", line 3, in <module>\nKeyError: 'x'\n[2/9] Building CXX object a.o\n"
            "FAILED: b.o\nb.cpp:3:1: error: expected ';' at end of input\n",
            "python-exception",
        ),
        # A loader's message above the program that it ended.
        (
            "dyld: Library not loaded: @rpath/libopenh264.5.dylib\n  Reason: image not found\n"
            "Traceback (most recent call last):\n  File \"setup.py\", line 3, in <module>\n"
            "subprocess.CalledProcessError: Command '['ffmpeg', '-version']' died with <Signals.SIGABRT: 6>.\n",
            "shared-library-missing",
        ),
        # What was to be copied is missing, and nothing failed before.
        ("FAILED: x.h\ncp: cannot stat 'y.h': No such file or directory\n", "file-missing"),
        # A warning of CMake's, and a status line.
        (
            "CMake Warning at CMakeLists.txt:3 (message):\n  Could NOT find Foo (missing: FOO_LIBRARY)\n\n\n"
            "-- ERROR: no documentation\na.cpp:3:1: error: expected ';' at end of input\n",
            "source-error",
        ),
        ("CMake Warning at a.cmake:3 (message):\n  Could NOT find Foo (missing: FOO)\n\n\n-- Done\n", "unknown"),
        ("gcc -c x.c\ncc1: fatal error: x.c: No such file or directory\ncompilation terminated.\n"
         "make: [Makefile:5: clean] Error 1 (ignored)\n", "unknown"),
        ("rm: cannot remove 'y': No such file or directory\nmake: *** [Makefile:3: a] Error 1\n"
         "make: [Makefile:5: clean] Error 1 (ignored)\n", "file-missing"),
        # A program that was only looked for, and the words of the step that stopped.
        ("/bin/sh: 1: lsmod: not found\nrunning build_ext\nthe server refused\nmake: *** [Makefile:3: a] Error 1\n",
         "step-says"),
        ("/bin/sh: 1: nasm: not found\nrunning build_ext\nno nasm, no build\nmake: *** [Makefile:3: a] Error 1\n",
         "command-missing"),
    ],
    ids=["made", "log", "caught", "ninja", "loader", "copy", "warned", "one", "ignored", "failed", "probed", "missing"],
)  # fmt: skip
def test_the_first_error_counts_that_the_tool_stops_at(log: str, expected: str) -> None:
    assert cause(log.splitlines()) == expected


@pytest.mark.parametrize(
    ("line", "log"),
    [
        ("error: Cannot build '/nix/store/abc-torch-2.7.drv'.", "`nix log /nix/store/abc-torch-2.7.drv`"),
        (
            "CMake Error at /b/s-stamp/s-build-.cmake:49 (message):\n  Command failed: 2\n\n  See also\n\n"
            "    /b/s-stamp/s-build-*.log\n",
            "/b/s-stamp/s-build-*.log",
        ),
        (
            "The command '/bin/sh -c make' returned a non-zero code: 2",
            "what that step printed: `docker build --progress=plain --no-cache`",
        ),
    ],
)
def test_a_wrapper_s_last_words_alone_name_the_log_that_holds_the_cause(line: str, log: str) -> None:
    found = diagnose([line.encode()])
    assert not found.explains
    assert found.cause is not None
    assert found.cause.change[-1] == f"read {log}"


PROBES = [
    "/tmp/tmp17no7wm5/test.c:1:10: fatal error: omp.h: No such file or directory\ncompilation terminated.\n",
    "-- probe: Change Dir: /b/CMakeFiles/CMakeTmp\nFAILED: CMakeFiles/cmTC_44571.dir/t.cpp.o\n"
    "/src/t.cpp:1:19: error: 'probe' was not declared in this scope\nninja: build stopped: subcommand failed.\n",
    "conftest.c:21:10: fatal error: ac_nonexistent.h: No such file or directory\ncompilation terminated.\n",
    "_configtest.c:1:10: fatal error: foo.h: No such file or directory\ncompilation terminated.\nfailure.\n",
]


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_is_an_answer_and_no_error_unless_the_tool_stops_at_it(probe: str) -> None:
    going_on = "creating build/temp\n" * 40
    failure = "a.c:3:1: error: expected ';' at end of input\nerror: command '/usr/bin/gcc' failed with exit code 1\n"
    assert cause((probe + going_on).splitlines()) == "unknown"
    assert cause((probe + going_on + failure).splitlines()) == "source-error"
    assert cause(probe.splitlines()) in {"header-missing", "source-error"}
    stopped = probe + going_on + "error: command '/usr/bin/gcc' failed with exit code 1\n"
    assert cause(stopped.splitlines()) in {"header-missing", "source-error"}


def test_a_setup_stops_at_the_answer_to_its_last_question() -> None:
    """As distutils writes it, where it names the source only when it removes it."""

    def question(library: str) -> str:
        return (
            f"checking for library '{library}' ...\n/usr/bin/ld: cannot find -l{library}: No such file or directory\n"
            "collect2: error: ld returned 1 exit status\nfailure.\nremoving: _configtest.c _configtest.o\n"
        )

    log = question("lmpe") + "building 'mpe' dylib library\n" * 9 + question("hwloc")
    log += "error: Cannot link MPI programs. Check your configuration!!!\nERROR: Failed building wheel for mpi4py\n"
    found = diagnose([log.encode()]).cause
    assert found is not None
    assert (found.entry.id, found.captures["library"]) == ("library-missing", "hwloc")


def test_what_is_said_to_explain_what_exists() -> None:
    ids = {entry.id for entry in read_catalogue()} | read_classes().keys()
    for row in EXPLAINS:
        assert row["source"].startswith("https://")
        assert {*row["errors"], *row.get("causes", ()), *row.get("not", ())} <= ids
        assert set(row.get("phases", ())) <= {phase.value for phase in Phase}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n \r\n",
        b"\x1f\x8b\x08\x00" + bytes(range(256)),
        b"\x7fELF\x02\x01\x01" + bytes(100),
        bytes(range(32)) * 9,
    ],
)
def test_what_is_no_log_is_not_called_clean(content: bytes) -> None:
    assert diagnose([content] if content else []).outcome is Outcome.NO_LOG


def test_a_remedy_that_the_log_shows_as_applied_is_not_offered() -> None:
    failure = b"-- NVSHMEM found: /v/nvidia/nvshmem/include\na.cpp:3:10: fatal error: nvshmem_host.h: No such file\n"
    plain = diagnose([failure]).cause
    applied = diagnose([b"$ USE_NVSHMEM=0 pip install .\n" + failure]).cause
    other = diagnose([b"$ USE_NVSHMEM=01 pip install .\n" + failure]).cause
    assert plain is not None and applied is not None and other is not None
    assert plain.entry.id == applied.entry.id == "nvshmem-release-mismatch"
    assert applied.change == plain.change[:-1]
    assert other.change == plain.change


def test_the_line_of_the_undefined_symbol_is_shown_and_all_symbols() -> None:
    log = b"".join(
        b"/usr/bin/ld: libtorch_cpu.so: undefined reference to `%s'\n" % name for name in (b"f1", b"f2")
    )
    cause = diagnose([log + b"make: *** [bin/torch_shm_manager] Error 1\n"]).cause
    assert cause is not None
    assert (cause.entry.id, cause.line.number) == ("shm-manager-link", 1)
    assert set(cause.captures["symbols"].split(", ")) == {"f1", "f2"}


def test_a_probe_near_the_end_of_a_log_that_ends_well_is_no_failure() -> None:
    probe = b"conftest.c:9:10: fatal error: infiniband/verbs.h: No such file or directory\n"
    assert diagnose([probe + b"compilation terminated.\nInstalled 14 packages in 320ms\n"]).cause is None
    assert diagnose([probe + b"compilation terminated.\n"]).cause is not None


def test_a_program_that_the_next_error_names_was_needed() -> None:
    log = b"""\
/opt/hcc/bin/hc-kernel-assemble: line 185: ld: command not found
Error: hc-kernel-assemble[186]: ld failed with status 127
clang-10: error: HC assembler command failed with exit code 255
make[2]: *** [csrc/a.hip.o] Error 255
"""
    cause = diagnose([log]).cause
    assert cause is not None
    assert (cause.entry.id, cause.line.number) == ("command-missing", 1)
