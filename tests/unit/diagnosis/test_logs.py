# ruff: noqa: E501, RUF001 - lines of logs as they were printed.
"""Every known failure has logs of its shape, and is found in them whatever wraps the lines."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from places import LOGS
from torchwheel.diagnosis.decoding import clean_text
from torchwheel.diagnosis.diagnosis_page import render
from torchwheel.diagnosis.failures import Diagnosis, Outcome, read_catalogue
from torchwheel.diagnosis.grammar import catalogue_forms
from torchwheel.diagnosis.languages import normalise_line
from torchwheel.diagnosis.scanner import diagnose

FAILURES = sorted(LOGS.glob("*.log"))
CLEAN = sorted((LOGS / "clean").glob("*.log"))
OPENMP = {"number": "126", "openmp": "fbgemm"}
WITHOUT_AN_END = {"ccache-statistics.log", "cmake-output.log", "import-warnings.log"}


def expected_id(path: Path) -> str:
    """The entry that a log belongs to: ``id.log`` or ``id.variant.log``."""
    return path.name.split(".")[0]


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def diagnosed(content: bytes) -> Diagnosis:
    return diagnose(io.BytesIO(content))


def cause_of(content: bytes) -> str:
    diagnosis = diagnosed(content)
    return diagnosis.cause.entry.id if diagnosis.cause else diagnosis.outcome.value


def on_each_line(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def coloured(text: str) -> str:
    for word in ("error:", "Error", "fatal", "FAILED:", "warning:"):
        text = text.replace(word, f"\x1b[01;31m\x1b[K{word}\x1b[m\x1b[K")
    return on_each_line("\x1b[0m\x1b[1m", text).replace("'", "\x1b[01m'\x1b[0m")


def with_garbage(text: str) -> bytes:
    return b"\xff\xfe\xfa caf\xe9 \x80\n".join(line.encode() + b"\n" for line in text.splitlines())


WRAPPINGS: dict[str, Callable[[str], bytes]] = {
    "as it is": lambda text: text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR CR LF": lambda text: text.replace("\n", "\r\r\n").encode(),
    "no line end at the end": lambda text: text.rstrip("\n").encode(),
    "UTF-8 with a mark": lambda text: text.encode("utf-8-sig"),
    "UTF-16 little endian": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
    "UTF-16 big endian": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "UTF-16 without a mark": lambda text: text.replace("\n", "\r\n").encode("utf-16-le"),
    "UTF-16 appended to ASCII": lambda text: b"starting\n" * 600 + text.encode("utf-16-le"),
    "broken encoding": with_garbage,
    "make": lambda text: on_each_line("[ 45%] ", text).encode(),
    "pip": lambda text: on_each_line("      ", text).encode(),
    "uv": lambda text: on_each_line("DEBUG ", text).encode(),
    "uv streams": lambda text: on_each_line("      [stderr] ", text).encode(),
    "Jenkins time stamps": lambda text: on_each_line("23:54:12 ", text).encode(),
    "colours": lambda text: coloured(text).encode(),
    "progress": lambda text: on_each_line("[1/9] Building CXX object a.o\r\x1b[K", text).encode(),
    "saved from a page": lambda text: html.escape(text).encode(),
    "blank lines between": lambda text: text.replace("\n", "\n\n").encode(),
    "all together": lambda text: (
        on_each_line("2026-06-27T19:59:59.0879266Z #24 11.24   │ [12/345] ", coloured(text))
        .replace("\n", "\r\n")
        .encode("utf-16")
    ),
}


@pytest.mark.parametrize("name", WRAPPINGS)
def test_a_log_that_ends_well_is_a_success(name: str) -> None:
    wrap = WRAPPINGS[name]
    found = {path.name: diagnosed(wrap(text_of(path))).outcome for path in CLEAN}
    assert found == {
        path.name: Outcome.UNKNOWN if path.name in WITHOUT_AN_END else Outcome.SUCCEEDED for path in CLEAN
    }


def test_the_earlier_of_two_failing_jobs_is_the_cause() -> None:
    memory = text_of(LOGS / "compiler-out-of-memory.log").splitlines(keepends=True)
    architecture = text_of(LOGS / "unsupported-gpu-architecture.log").splitlines(keepends=True)
    late, early = memory[:5] * 8 + memory, architecture
    diagnosis = diagnosed(
        "".join(a + b for a, b in zip(late, early, strict=False)).encode()
        + b"".join(line.encode() for line in late[len(early) :])
    )
    assert diagnosis.cause is not None
    assert diagnosis.cause.entry.id == "unsupported-gpu-architecture"
    assert [one.entry.id for one in diagnosis.others] == ["compiler-out-of-memory"]


def test_every_entry_has_a_log_and_every_log_an_entry() -> None:
    assert {expected_id(path) for path in FAILURES} == {entry.id for entry in read_catalogue()}


def test_every_pattern_is_needed_by_a_log_of_its_entry() -> None:
    unused = []
    for form in catalogue_forms():
        texts = [text_of(path) for path in FAILURES if expected_id(path) == form.id]
        lines = [normalise_line(clean_text(line.encode())) for text in texts for line in text.splitlines()]
        if not any(form.needle in line and form.regex.search(line) for line in lines):
            unused.append((form.id, form.regex.pattern))
    assert unused == []


@pytest.mark.parametrize("path", FAILURES, ids=lambda path: path.name)
def test_messages_are_complete(path: Path) -> None:
    diagnosis = diagnosed(text_of(path).encode())
    cause = diagnosis.cause
    assert cause is not None
    assert re.findall(r"\{[a-z_]+\}", " ".join((cause.title, cause.means, *cause.change))) == []
    assert cause.line in cause.excerpt
    assert render(diagnosis, width=80)


def test_logs_are_of_a_realistic_size() -> None:
    """What people paste into a report may be two lines."""
    sizes = {path.name: len(text_of(path).splitlines()) for path in FAILURES}
    assert {name: size for name, size in sizes.items() if not 2 <= size <= 60} == {}


SEEDS = {
    "a c10d::Work that torch_cpu.dll lacks": "c10d-unresolved.log",
    "no setuptools": "setuptools-missing.log",
    "MKL asked for on aarch64": "mkl-not-for-arm.log",
    "XNNPACK on aarch64": "xnnpack-arm.log",
    "flash attention's kernels": "flash-attention-compile.log",
    "protobuf": "protobuf-version-clash.log",
    "torch_shm_manager at 92 %": "shm-manager-link.seed-002.log",
    "CMake finds no CUDA": "cuda-not-found.seed-004.log",
    "compute_90 on an old CUDA": "unsupported-gpu-architecture.seed-004.log",
    "a symbol of another torch": "extension-abi-mismatch.tensor.log",
    "cc1plus killed": "compiler-out-of-memory.log",
    "cuDNN headers of another version": "cudnn-headers-mismatch.log",
}


@pytest.mark.parametrize("story", SEEDS)
def test_failures_that_cost_people_a_night(story: str) -> None:
    path = LOGS / SEEDS[story]
    assert cause_of(text_of(path).encode()) == expected_id(path)


@pytest.mark.parametrize(
    ("language", "compiler", "cause"),
    [("CXX", "C++", "compiler-does-not-work"), ("CUDA", "CUDA", "cuda-compiler-broken")],
)
def test_whose_compiler_cannot_compile_a_test_program(language: str, compiler: str, cause: str) -> None:
    """The environment of either build may name CUDA."""
    text = f"""\
-- USE_CUDA=0 CUDA_HOME=/usr/local/cuda PATH=/usr/local/cuda/bin
CMake Error at /usr/share/cmake-3.31/Modules/CMakeTest{language}Compiler.cmake:73 (message):
  The {compiler} compiler

    "/usr/bin/{compiler.lower()}"

  is not able to compile a simple test program.
"""
    assert cause_of(text.encode()) == cause


def test_a_consequence_is_listed_after_its_cause() -> None:
    diagnosis = diagnosed(text_of(LOGS / "gcc-too-new-for-cuda.configure.log").encode())
    assert diagnosis.cause is not None
    assert diagnosis.cause.title == "this CUDA refuses gcc newer than 12"
    assert [one.entry.id for one in diagnosis.others] == ["cuda-compiler-broken"]
    assert diagnosis.others[0].line.number < diagnosis.cause.line.number


@pytest.mark.parametrize(
    ("log", "captures"),
    [
        (
            "two-cuda-toolkits",
            {
                "compiler_version": "12.4.131",
                "toolkit_version": "12.9.86",
                "packaged": "12.4.131",
                "home": "/usr/local/cuda-12.9",
            },
        ),
        ("nvcc-and-headers-differ", {"nvcc_version": "11.5", "header_version": "12.6"}),
        ("cuda-major-mismatch", {"toolkit": "12.0", "torch": "11.7"}),
        ("generator-changed", {"generator": "Ninja", "previous": "Unix Makefiles"}),
        ("submodules-missing", {"folder": "/home/me/pytorch/third_party/ios-cmake"}),
        ("submodules-missing.cmake", {"folder": "/home/me/pytorch/third_party/psimd"}),
        ("submodules-missing.license-files", {"folder": "third_party/**/LICENSE"}),
        ("submodule-commit-missing.direct", {"commit": "3147391d946bb4b6c68edd901f2add6ac1f31f8c"}),
        ("shm-manager-link", {"symbols": "sgbmv_64_, cblas_gemm_bf16bf16f32_compute"}),
        ("shm-manager-link.seed-002", {"symbols": "names in the lines above"}),
        (
            "capability-not-in-build",
            {
                "arch": "sm_120",
                "of_torch": "sm_120",
                "supported": "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90",
            },
        ),
        ("compiler-out-of-memory.old", {"program": "cc1plus", "file": "a file that is not named"}),
        ("compiler-out-of-memory", {"program": "cc1plus", "file": "VariableType_2.cpp"}),
        ("c10d-unresolved", {"symbol": "c10d::Work"}),
        ("winerror-126", {"library": r"C:\ai\.venv\Lib\site-packages\torch\lib\fbgemm.dll", **OPENMP}),
        (
            "winerror-126.chinese",
            {"library": r"D:\mysoft\envs\llama\Lib\site-packages\torch\lib\fbgemm.dll", **OPENMP},
        ),
    ],
)
def test_captures_come_from_the_lines_around(log: str, captures: dict[str, str]) -> None:
    cause = diagnosed(text_of(LOGS / f"{log}.log").encode()).cause
    assert cause is not None
    assert dict(cause.captures) == captures


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/usr/bin/ld : ne peut pas trouver -lcudart_x : Aucun fichier ou dossier de ce type", "linker-cannot-find-library"),
        ("/usr/bin/ld: -lcudart_x が見つかりません: そのようなファイルやディレクトリはありません", "linker-cannot-find-library"),
        ("/usr/bin/ld: 找不到 -lcudart_x: 没有那个文件或目录", "linker-cannot-find-library"),
        ("b.cpp:(.text+0x0) : définitions multiples de « same() »; a.o:a.cpp:(.text+0x0) : ici", "duplicate-symbol"),
        ("g++: interner Compiler-Fehler: Signal Speicherzugriffsfehler hat Programm cc1plus beendet", "gcc-internal-error"),
        ("g++: erreur interne du compilateur: le signal Erreur de segmentation a terminé cc1plus", "gcc-internal-error"),
        ("g++: 编译器内部错误：段错误 signal terminated program cc1plus", "gcc-internal-error"),
        ("g++: 致命的エラー: 強制終了 signal terminated program cc1plus", "compiler-out-of-memory"),
        ("g++: 致命错误：已杀死 signal terminated program cc1plus", "compiler-out-of-memory"),
        ("bash: Zeile 1: FOO ist nicht gesetzt.", "value-unset"),
        ("bash: 行 1: FOO: 未绑定的变量", "value-unset"),
        ('a.obj : error LNK2019: Verweis auf nicht aufgelöstes externes Symbol ""public: void __cdecl c10d::Work::f(void)" (?f@Work@c10d@@QEAAXXZ)".', "c10d-unresolved"),
        ("a.obj : error LNK2001: Nicht aufgelöstes externes Symbol public: void __cdecl c10d::Work::f(void)", "c10d-unresolved"),
        ('a.cpp(3): error C2039: "foo": ist kein Member von "c10"', "library-api-unfit"),
        ("cp: der Aufruf von stat für 'nosuch' ist nicht möglich: Datei oder Verzeichnis nicht gefunden", "file-missing"),
        ("bash : ligne 1 : 27849 Erreur de segmentation  ./a.out", "program-crashed"),
    ],
)  # fmt: skip
def test_what_is_known_is_found_in_every_language(line: str, expected: str) -> None:
    assert cause_of(line.encode()) == expected


def test_the_name_of_an_unresolved_symbol_is_whole_in_german() -> None:
    line = 'a.obj : error LNK2019: Verweis auf nicht aufgelöstes externes Symbol ""public: __cdecl foo::B::B(int)" (??0B@foo@@QEAA@H@Z)" in Funktion "main".'
    cause = diagnosed(line.encode()).cause
    assert cause is not None
    assert cause.captures["symbol"] == "public: __cdecl foo::B::B(int)"
