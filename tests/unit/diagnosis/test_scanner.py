"""Choosing the first cause, in one pass, in bounded memory and time."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from places import LOGS
from torchwheel.diagnosis import scanner
from torchwheel.diagnosis.decoding import CHUNK_BYTES
from torchwheel.diagnosis.failures import Diagnosis, LogLine, Outcome, read_catalogue
from torchwheel.diagnosis.grammar import catalogue_forms
from torchwheel.diagnosis.grammar import form_needles as grammar_needles
from torchwheel.diagnosis.places import EXCERPT_LINES, NEARBY_LINES
from torchwheel.diagnosis.scanner import ERRORS_KEPT, diagnose

KILLED = b"c++: fatal error: Killed signal terminated program cc1plus\n"
FULL = b"fatal error: error writing to /tmp/cc2mYx0T.s: No space left on device\n"
SHM = b"FAILED: bin/torch_shm_manager\n"
FLASH = b"FAILED: kernels/flash_bwd_hdim128_bf16_sm80.cu.o\n"
PROGRESS = b"[12/345] Building CXX object caffe2/a.cpp.o\n"


def ids(diagnosis: Diagnosis) -> list[str]:
    found = [diagnosis.cause] if diagnosis.cause else []
    return [one.entry.id for one in (*found, *diagnosis.others)]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (KILLED + FULL, ["compiler-out-of-memory", "no-space-left"]),
        (FULL + KILLED, ["no-space-left", "compiler-out-of-memory"]),
        (SHM + KILLED, ["compiler-out-of-memory", "shm-manager-link"]),
        (FLASH + SHM, ["shm-manager-link", "flash-attention-compile"]),
        (FLASH + SHM + FULL, ["no-space-left", "flash-attention-compile", "shm-manager-link"]),
        (SHM + PROGRESS * NEARBY_LINES + FULL, ["shm-manager-link", "no-space-left"]),
        (SHM + PROGRESS * NEARBY_LINES + KILLED, ["shm-manager-link", "compiler-out-of-memory"]),
        (FLASH + PROGRESS * NEARBY_LINES + FULL, ["no-space-left", "flash-attention-compile"]),
        (PROGRESS, []),
        (b"", []),
    ],
)
def test_the_first_entry_is_the_cause_or_a_higher_one_near_it(log: bytes, expected: list[str]) -> None:
    assert ids(diagnose([log])) == expected


def test_what_is_known_of_the_place() -> None:
    diagnosis = diagnose([PROGRESS * 9 + KILLED + PROGRESS * 9 + KILLED * 2])
    assert (diagnosis.lines, diagnosis.bytes) == (21, 18 * len(PROGRESS) + 3 * len(KILLED))
    cause = diagnosis.cause
    assert cause is not None
    assert cause.line == LogLine(10, KILLED.decode().strip())
    assert cause.count == 3
    assert dict(cause.captures) == {"program": "cc1plus", "file": "a file that is not named"}
    progress = "Building CXX object caffe2/a.cpp.o"
    assert cause.excerpt == (
        *(LogLine(n, progress) for n in range(10 - EXCERPT_LINES, 10)),
        cause.line,
        *(LogLine(n, progress) for n in range(11, 11 + EXCERPT_LINES)),
    )


def test_failures_that_no_entry_knows_are_classified() -> None:
    log = PROGRESS + b"a.cpp:1:2: error: 'x' was not declared\n" + PROGRESS
    log += (
        b"".join(b"b.cpp:%d:4: error: no\n" % n for n in range(9))
        + b"ninja: build stopped: subcommand failed.\n"
    )
    diagnosis = diagnose([log])
    assert diagnosis.outcome is Outcome.FAILED
    assert diagnosis.cause is not None
    assert diagnosis.cause.title == "a.cpp does not compile: 'x' was not declared"
    assert [line.number for line in diagnosis.cause.excerpt] == [1, 2, 3, 4, 5, 6]
    assert [one.line.number for one in diagnosis.others] == [4]
    assert diagnosis.others[0].count == 9


def test_what_a_line_does_not_say_is_filled_from_what_it_says() -> None:
    cause = diagnose([b"a.cpp:1:2: fatal error: my/own.h: No such file or directory\n"]).cause
    assert cause is not None
    assert cause.change[0] == "install the development package that brings my/own.h"


def test_the_line_above_a_message_is_no_second_error() -> None:
    log = b"CMake Error at a.cmake:3 (message):\n  Could NOT find NUMA (missing: NUMA_LIBRARIES)\n\n"
    assert ids(diagnose([log])) == ["cmake-package-missing"]
    other = b"CMake Error at b.cmake:3 (message):\n  no\n\n"
    assert ids(diagnose([log + other])) == ["cmake-package-missing", "cmake-error"]


def test_few_of_many_errors_are_kept() -> None:
    log = b"".join(b"a%d.cpp:1:1: error: no\n" % n for n in range(9))
    assert len(diagnose([log]).others) == ERRORS_KEPT - 1


def test_an_error_before_an_entry_that_does_not_explain_it_is_the_cause() -> None:
    error = b"a.cpp:1:2: error: 'x' was not declared\n"
    for lines in (0, NEARBY_LINES - 1, NEARBY_LINES):
        found = ids(diagnose([error + PROGRESS * lines + KILLED]))
        assert found == ["source-error", "compiler-out-of-memory"]


def test_a_hint_after_an_error_is_no_cause() -> None:
    hint = next(entry for entry in read_catalogue() if entry.rank == 1)
    text = next(LOGS.glob(f"{hint.id}*.log")).read_bytes()
    assert ids(diagnose([b"a.cpp:1:2: error: 'x' was not declared\n" + text]))[0] == "source-error"


@pytest.mark.parametrize(
    "line",
    [
        b"FAILED: a.cpp.o",
        b"ninja: build stopped: subcommand failed.",
        b"make: *** [Makefile:5: all] Error 1",
        b"make: *** [Makefile:5\xef\xbc\x9aall] \xe9\x94\x99\xe8\xaf\xaf 1",
        b"cl : Command line error D8016 : '/MT' and '/MD' command-line options are incompatible",
        b"a.cpp(3): error C2065: 'x': undeclared identifier",
        b"a.obj : error LNK2001: unresolved external symbol f",
        b"NMAKE : fatal error U1077: 'cl.exe' : return code '0x2'",
        b"Killed",
        b"bash: line 1: 123 Killed                  cmake --build .",
        b"make: *** [Makefile:2: a.o] Error 137",
        b"FAILED: [code=139] a.o",
        b"The command '/bin/sh -c pip wheel .' returned a non-zero code: 1",
        b"AssertionError",
        b"RuntimeError: it broke",
        b"error: subprocess-exited-with-error",
        b"  \xc3\x97 Failed to build `demo @ file:///x`",
        b"LibMambaUnsatisfiableError: Encountered problems while solving:",
        b"collect2: \xe9\x94\x99\xe8\xaf\xaf\xef\xbc\x9ald \xe8\xbf\x94\xe5\x9b\x9e 1",
    ],
)
def test_a_failed_build_is_never_called_clean(line: bytes) -> None:
    diagnosis = diagnose([PROGRESS + line + b"\n"])
    assert diagnosis.outcome is Outcome.FAILED
    assert diagnosis.cause is not None
    assert diagnosis.cause.line.number == 2


def test_what_only_says_that_the_build_stopped_is_no_cause_beside_an_error() -> None:
    log = (
        b"FAILED: a.cpp.o\na.cpp:1:2: error: 'x' was not declared\nninja: build stopped: subcommand failed.\n"
    )
    assert ids(diagnose([log])) == ["source-error"]
    alone = diagnose([b"FAILED: a.cpp.o\nninja: build stopped: subcommand failed.\n"])
    assert (ids(alone), alone.outcome, alone.explains) == (["build-stopped"], Outcome.FAILED, False)


@pytest.mark.parametrize(
    ("log", "cause", "line"),
    [
        # ROCm/rocBLAS#1280: CMake's check fails, and quotes the compiler.
        (
            "CMake Error at CMakeTestCXXCompiler.cmake:62 (message):\n"
            "  The C++ compiler\n\n"
            "  is not able to compile a simple test program.\n\n"
            "  It fails with the following output:\n\n"
            "    clang-15: error: cannot find ROCm device library; provide its path via '--rocm-path'\n"
            "    gmake: *** [Makefile:127: cmTC_5f78f/fast] Error 2\n",
            "compiler-part-missing",
            8,
        ),
        # osqp/qdldl#43: CMake runs MSBuild.
        (
            "CMake Error at CMakeLists.txt:10 (project):\n"
            "  Failed to run MSBuild command:\n\n"
            "    C:/VS/MSBuild.exe\n\n"
            "  to get the value of VCTargetsPath:\n\n"
            "    C:\\x.targets(67,5): error MSB8020: The build tools for v143 (Toolset = 'v143') cannot be found.\n",
            "visual-studio-incomplete",
            8,
        ),
        # NVlabs/instant-ngp#548: MSBuild tells of the command before the command's own words.
        (
            'CUDA 11.1.targets(785,9): error MSB3721: “"C:\\nvcc.exe" "D:\\a code\\a.cu"” 1. [D:\\a.vcxproj]\n'
            "  nvcc fatal   : A single input file is required for a non-link phase when an outputfile is specified\n",
            "option-unfit",
            2,
        ),
        # vllm-project/vllm#10689: docker's seconds stand before an indented line, and alone on an empty one.
        (
            "27.05 CMake Error at onednn-populate-gitclone.cmake:50 (message):\n"
            "27.05   Failed to clone repository: 'https://example.invalid/oneDNN.git'\n"
            "27.05\n"
            "27.05 ninja: build stopped: subcommand failed.\n",
            "network",
            2,
        ),
        # ROCm/hip#2184: a paragraph that ends with a colon belongs to the next.
        (
            "CMake Error at tests/hit/HIT.cmake:375 (elseif):\n  given arguments:\n\n"
            '    "NOT" "a" "AND" "IN_LIST" "b"\n\n  Unknown arguments specified\n',
            "cmake-error",
            1,
        ),
        # BachiLi/diffvg#56: FindCUDA tells that nvcc failed, and not why.
        (
            "CMake Error at x_generated_a.cpp.o.Release.cmake:280 (message):\n  Error generating file\n  /x/a.cpp.o\n\n"
            "make: *** [Makefile:103: all] Error 2\n",
            "build-stopped",
            1,
        ),
    ],
    ids=["compiler check", "MSBuild", "command", "docker", "colon", "FindCUDA"],
)  # fmt: skip
def test_what_passes_on_another_program_s_words_is_no_cause_beside_them(
    log: str, cause: str, line: int
) -> None:
    found = diagnose([log.encode()]).cause
    assert found is not None
    assert (found.entry.id, found.line.number) == (cause, line)


def test_a_message_of_two_paragraphs_is_told_whole() -> None:
    log = b'CMake Error at a.cmake:3 (elseif):\n  given arguments:\n\n    "NOT" "b"\n\n  Unknown\n'
    cause = diagnose([log]).cause
    assert cause is not None
    assert cause.title == 'CMake stopped: given arguments: "NOT" "b"'


def test_a_log_that_another_log_is_told_of_names_it() -> None:
    log = (
        b"ERROR:root:Error occurred while running command: Command '['cmake', '--build', 'build']' returned "
        b"non-zero exit status 2., check details in logs/compile.log\n"
    )
    cause = diagnose([log]).cause
    assert cause is not None
    assert (cause.entry.id, cause.change[-1]) == ("build-stopped", "read logs/compile.log")


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
            ["cuda-library-not-found"],
        ),
        (b"error: it broke\nSuccessfully built torch\n", []),
        # Tests expect failures in use, and name themselves before each.
        (
            b"t.py::test_a[x] PASSED\nt.py::test_a[y] XFAIL (CUDA error: no kernel image is available)\n"
            b"1 passed, 1 xfailed in 6.2s\n",
            [],
        ),
    ],
)
def test_a_build_that_ends_well_settles_what_came_before(log: bytes, expected: list[str]) -> None:
    diagnosis = diagnose([log])
    assert ids(diagnosis) == expected
    assert diagnosis.outcome is (Outcome.FAILED if expected else Outcome.SUCCEEDED)


def test_context_is_needed_nearby() -> None:
    near = b"IndexError: list index out of range\n"
    frame = b"  File cpp_extension.py, line 2074, in _get_cuda_arch_flags\n"
    assert ids(diagnose([frame + b"    x\n" * 20 + near])) == ["no-gpu-and-no-architectures"]
    assert ids(diagnose([frame + b"    x\n" * 200 + near])) == ["python-exception"]
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


def test_another_catalogue_can_be_given() -> None:
    assert ids(diagnose([KILLED], ())) == ["killed"]


def test_a_command_with_werror_among_its_options_is_no_error_and_one_that_fails_is() -> None:
    command = "c++ -Wall -Werror=return-type -Wno-error=pedantic -Werror -c a.cpp -o a.o\n"
    assert diagnose([command.encode() * 3]).outcome is Outcome.UNKNOWN
    failed = diagnose(
        [f"{command}a.cpp:3:7: error: unused variable 'x' [-Werror=unused-variable]\n".encode()]
    )
    assert failed.cause is not None
    assert (failed.cause.entry.id, failed.cause.line.number) == ("warning-as-error", 2)


def test_a_command_with_werror_is_not_classified_whatever_words_of_the_catalogue_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    classified = []
    monkeypatch.setattr(scanner, "classify", lambda text, *_, **named: classified.append(text))
    needles = {form.needle for form in catalogue_forms()}
    words = [one for one in needles if not any(part in one for part in grammar_needles())]
    assert "nstall" in words
    diagnose([f"c++ -Werror=return-type -I/{word}/include -c a.cpp\n".encode() for word in words])
    assert classified == []


FILLED_MESSAGE = b"""\
CMake Error at /usr/share/cmake-3.31/Modules/CMakeDetermineCompilerId.cmake:909 (message):
  Compiling the CUDA compiler identification source file
  "CMakeCUDACompilerId.cu" failed.

  The output was:

  2

  /usr/include/bits/mathcalls.h(206): error: exception
  specification is incompatible with that of previous function "rsqrt"
  (declared at line 629 of /usr/local/cuda/include/crt/math_functions.h)





Call Stack (most recent call first):
  CMakeLists.txt:2 (project)


-- Configuring incomplete, errors occurred!
"""


@pytest.mark.parametrize("lines_before", [0, 200])
def test_a_message_that_cmake_filled_is_matched_whole(lines_before: int) -> None:
    padding = b"  #$ _SPACE_=\n\n" * (lines_before // 2)
    log = FILLED_MESSAGE.replace(b"  2\n\n", b"  2\n\n" + padding, 1)
    cause = diagnose(io.BytesIO(log)).cause
    assert cause is not None
    assert cause.entry.id == "glibc-math-conflict"
    assert cause.captures["function"] == "rsqrt"


def test_status_lines_of_cmake_change_no_answer() -> None:
    harmless = (
        b"-- Checking for module 'mpi-c'\n--   Package 'mpi-c', required by 'virtual:world', not found\n"
        b"-- Could NOT find Atlas (missing: Atlas_CBLAS_LIBRARY)\n-- Performing Test HAVE_X - Failed\n"
    )
    failure = b"main.cpp:3:10: fatal error: yaml.h: No such file or directory\ncompilation terminated.\n"
    assert diagnose(io.BytesIO(harmless)).cause is None
    for log in (harmless + failure, failure + harmless, harmless * 20 + failure + harmless):
        cause = diagnose(io.BytesIO(log)).cause
        assert cause is not None
        assert cause.entry.id == "header-missing"


def test_a_log_that_ends_while_a_step_is_tried_again_is_not_clean() -> None:
    killed = b"g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"
    retried = killed + b"torchwheel: continuing with 1 job\n"
    cause = diagnose(io.BytesIO(retried)).cause
    assert cause is not None
    assert cause.entry.id == "compiler-out-of-memory"
    assert diagnose(io.BytesIO(retried + b"torchwheel: done with 1 job; it helped\n")).cause is None


def test_an_error_of_torchwheel_itself_is_repeated_with_its_id() -> None:
    log = b"torchwheel: there is no folder /src/x  [source-missing]\n    fix: correct the path\n"
    cause = diagnose(io.BytesIO(log)).cause
    assert cause is not None
    assert (cause.entry.id, cause.captures["error"]) == ("torchwheel-error", "source-missing")


def test_a_message_that_uv_filled_is_matched_whole() -> None:
    log = (
        b"      RuntimeError: Cuda extensions are being compiled with a version of Cuda\n"
        b"      that does not match the version used to compile Pytorch binaries.\n"
        b"      Pytorch binaries were compiled with Cuda 12.1.\n"
    )
    cause = diagnose([log]).cause
    assert cause is not None
    assert (cause.entry.id, cause.line.number, cause.captures["torch"]) == ("cuda-major-mismatch", 1, "12.1")


def test_a_build_that_goes_on_after_an_error_and_breaks_off_is_no_failure() -> None:
    went_on = "".join(f"[{step}/337] Building CXX object a{step}.o\n" for step in range(80, 90))
    found = diagnose([f"/bin/sh: 1: nvidia-smi: not found\n{went_on}[90/337] Building C".encode()])
    assert (found.outcome, found.cause) == (Outcome.UNKNOWN, None)
    stopped = diagnose(
        [f"{went_on}/bin/sh: 1: nvcc: not found\nninja: build stopped: subcommand failed.\n".encode()]
    )
    assert (stopped.outcome, ids(stopped)) == (Outcome.FAILED, ["command-missing"])


def test_what_cmake_wraps_is_read_as_one_paragraph() -> None:
    log = 'CMake Error in a:\n  Target "a" requires the language\n  dialect "CUDA20" .  But the current\n\n-- Found b\n'
    cause = diagnose([log.encode()]).cause
    assert cause is not None
    assert (cause.entry.id, cause.captures["needed"]) == ("compiler-too-old", "CUDA20")


def test_what_was_survived_is_not_taken_for_another_failure_of_its_kind() -> None:
    file = "LINK : fatal error LNK1181: cannot open input file"
    log = (
        f"{file} 'aio.lib'\n [WARNING] no libaio\nbuilding 'C'\n{file} 'foo.lib'\nninja: build stopped: x.\n"
    )
    cause = diagnose([log.encode()]).cause
    assert cause is not None
    assert (cause.captures["library"], cause.line.number) == ("foo.lib", 4)


def test_a_probe_that_was_survived_once_is_survived_in_the_next_run() -> None:
    probe = "LINK : fatal error LNK1181: cannot open input file 'aio.lib'\n"
    warned = f"{probe} [WARNING]  async_io requires libaio but it was not found.\nbuilding 'x'\n"
    built = "Successfully built x-1-py3-none-any.whl\n"
    assert diagnose([f"{warned}{built}$ python run.py\n{probe}0.16.5\n".encode()]).cause is None
    assert diagnose([f"{warned}{probe}ninja: build stopped: subcommand failed.\n".encode()]).cause is not None


def test_a_server_that_answers_500_failed() -> None:
    log = (
        "INFO:     Application startup complete.\n"
        'INFO:     1.2.3.4:5 - "POST /x HTTP/1.1" 500 Internal Server Error\n'
        "ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n"
        '  File "/srv/main.py", line 5, in x\n    y()\nRuntimeError: Numpy is not available\n'
        'INFO:     1.2.3.4:5 - "GET /health HTTP/1.1" 200 OK\n'
    )
    cause = diagnose([log.encode()]).cause
    assert cause is not None and cause.line.number == 7


@pytest.mark.parametrize("pointer", ["See root cause above.", "See stack trace for the root cause."])
def test_the_root_cause_above_is_the_cause(pointer: str) -> None:
    own = 'Traceback (most recent call last):\n  File "/w.py", line 5, in x\n    y()\nValueError: no such engine\n'
    between = "".join(f"(Engine pid=1) INFO {number} waiting\n" for number in range(50))
    log = f"{own}{between}(API pid=2) RuntimeError: Engine core failed. {pointer}\n"
    cause = diagnose([log.encode()]).cause
    assert cause is not None and cause.line.number == 4
