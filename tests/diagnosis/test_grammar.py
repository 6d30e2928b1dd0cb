# ruff: noqa: E501, RUF001 - lines of logs as they were printed, in the typography of their language.
"""The forms in which tools write errors, their classes, and what they catch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchwheel.diagnosis.grammar import (
    Classified,
    Form,
    Role,
    classes,
    classify,
    forms,
    header_package,
    in_english_words,
    needles,
)
from torchwheel.diagnosis.languages import plain

PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


def classified(form: Form) -> list[Classified]:
    """What is said of the lines of a form's example."""
    lines = form.example.split("\n")
    found = [classify(line, lambda: lines, lambda: ["", "  the message"]) for line in lines]
    return [one for one in found if one is not None]


def ids() -> list[str]:
    return [f"{form.tool}-{form.error_class or form.role.value}-{n}" for n, form in enumerate(forms())]


@pytest.mark.parametrize("form", forms(), ids=ids())
def test_every_example_is_of_its_form_and_class_and_is_found_by_a_literal(form: Form) -> None:
    assert (form.role, form.error_class) in [(one.role, one.error_class) for one in classified(form)]
    assert any(needle in form.example for needle in needles())


@pytest.mark.parametrize(
    "form", [form for form in forms() if form.role is Role.ERROR], ids=lambda f: f.error_class
)
def test_every_placeholder_of_its_class_is_caught_or_has_a_text(form: Form) -> None:
    one = classes()[form.error_class]
    named = set(PLACEHOLDER.findall(" ".join([one.title, one.means, *one.change])))
    caught = next(c.captures for c in classified(form) if c.error_class == form.error_class)
    assert named <= caught.keys() | one.otherwise.keys()


def test_every_class_has_a_form_but_the_one_for_logs_that_do_not_say_why() -> None:
    assert classes().keys() - {form.error_class for form in forms()} == {"build-stopped"}


@pytest.mark.parametrize(
    ("line", "error_class", "captures"),
    [
        ("a.cpp:1:10: schwerwiegender Fehler: numa.h: Datei oder Verzeichnis nicht gefunden", "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "1"}),
        ("a.cpp:1:10: erreur fatale: numa.h : Aucun fichier ou dossier de ce type", "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "1"}),
        ("a.cpp:1:10: 致命错误：numa.h：没有那个文件或目录", "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "1"}),
        ("a.cpp:1:10: 致命的エラー: numa.h: そのようなファイルやディレクトリはありません", "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "1"}),
        ("c.cpp:(.text+0x5) : référence indéfinie vers « foo() »", "undefined-symbol", {"symbol": "foo()", "file": "c.cpp"}),
        ("/usr/bin/ld: -lnuma が見つかりません: そのようなファイルやディレクトリはありません", "library-missing", {"library": "numa"}),
        ("make: *** 没有规则可制作目标“numa.c”，由“x.o” 需求。 停止。", "missing-input", {"name": "numa.c", "target": "x.o"}),
        ("bash: Zeile 1: nasm: Kommando nicht gefunden.", "command-missing", {"program": "nasm"}),
        ("bash: ligne 3: LD_LIBRARY_PATH : variable sans liaison", "variable-unset", {"variable": "LD_LIBRARY_PATH"}),
        ('reducer.obj : error LNK2019: Verweis auf nicht aufgelöstes externes Symbol "public: void __cdecl c10d::f(void)" (?f@c10d@@QEAAXXZ)', "undefined-symbol", {"symbol": "public: void __cdecl c10d::f(void)", "file": "reducer.obj"}),
        ('a.cpp(3): fatal error C1083: ソース ファイルを開けません。\'numa.h\':No such file or directory', "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "3"}),
    ],
)  # fmt: skip
def test_languages(line: str, error_class: str, captures: dict[str, str]) -> None:
    found = classify(line)
    assert found is not None
    caught = {name: text for name, text in found.captures.items() if name != "package"}
    assert (found.error_class, caught) == (error_class, captures)


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.",
        "fatal: not a git repository (or any of the parent directories): .git",
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError'",
        "make: [Makefile:3: clean] Error 1 (ignored)",
    ],
)
def test_what_is_no_failure(line: str) -> None:
    found = classify(line)
    assert found is not None
    assert found.role is Role.NOISE


@pytest.mark.parametrize(
    "line",
    [
        "-- Looking for C++ include error.h - not found",
        "-- Could NOT find MKL (missing: MKL_INCLUDE_DIR)",
        "[12/345] Building CXX object c10/CMakeFiles/c10.dir/util/Exception.cpp.o",
        "[ 45%] Building CXX object error_handler.cpp.o",
        "a.cpp:3:7: warning: unused variable 'x' [-Wunused-variable]",
        "a.cpp:3:7: note: 'x' declared here",
        "a.cpp(12): warning C4996: 'strcpy': This function may be unsafe",
        "tests/test_a.py::test_error PASSED",
        "tests/test_a.py::test_FAILED_case PASSED",
        "-- Performing Test COMPILER_SUPPORTS_FATAL - Failed",
        "Requirement already satisfied: exceptiongroup in ./lib",
        "Traceback (most recent call last):",
        "0 errors, 0 warnings",
    ],
)
def test_what_reports_nothing(line: str) -> None:
    assert classify(line) is None


def test_typography() -> None:
    assert plain("/usr/bin/ld : a.o : « foo() »") == "/usr/bin/ld: a.o: «foo()»"
    assert plain("a:1: 错误：x，y") == "a:1: 错误: x, y"


def test_headers_and_what_brings_them() -> None:
    assert header_package("numa.h") == (
        "install what brings numa.h (Debian, Ubuntu: libnuma-dev; Fedora: numactl-devel; conda: libnuma)"
    )
    assert header_package("my_own.h") == ""


def test_every_line_costs_bounded_time() -> None:
    """Patterns are tried on lines of the longest length, made of what they repeat."""
    import time

    for piece in (
        "a",
        " ",
        "a ",
        "a:1:",
        ": ",
        "'",
        '"a',
        "-l",
        "ld: ",
        "error ",
        "(.text+0x0): ",
        "\\",
        "x/",
        "[",
        "«",
    ):
        started = time.process_time()
        classify(piece * (2000 // len(piece)))
        assert time.process_time() - started < 10, piece


def test_data_is_canonical() -> None:
    folder = Path(__file__).parents[2] / "src/torchwheel/diagnosis/grammar"
    for file in folder.glob("*.toml"):
        text = file.read_text(encoding="utf-8")
        assert text.endswith("\n")
        assert "\t" not in text


@pytest.mark.parametrize(
    "line",
    [
        "a.cpp:1:10: schwerwiegender Fehler: numa.h: Datei oder Verzeichnis nicht gefunden",
        "a.cpp:1:10: erreur fatale : numa.h : Aucun fichier ou dossier de ce type",
        "a.cpp:1:10: 致命错误：numa.h：没有那个文件或目录",
        "a.cpp:1:10: fatal error: numa.h: No such file or directory",
    ],
)
def test_the_words_of_errors_in_english(line: str) -> None:
    assert in_english_words(line) == "a.cpp:1:10: fatal error: numa.h: No such file or directory"
