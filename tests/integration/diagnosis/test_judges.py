"""What real tools print, in several languages, is classified: they are the judges, not logs that were written here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sysconfig
from pathlib import Path

import pytest

from locales import ABSENT, can_make_locale, make_locales
from torchwheel.diagnosis.scanner import diagnose

PATH = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
"""Where the judges are: some are installed beside the tests alone."""

SOURCES = {
    "header.cpp": "#include <no_such_header.h>\n",
    "name.cpp": "int main() { return nonsense; }\n",
    "calls.cpp": "void nobody_defines_this();\nint main() { nobody_defines_this(); }\n",
    "asserts.cpp": 'static_assert(sizeof(int) == 9, "int has nine bytes");\n',
    "refuses.cpp": '#error "not on this machine"\n',
    "unused.cpp": "int main() { int unused; }\n",
    "one.cpp": "int same() { return 1; }\n",
    "two.cpp": "int same() { return 2; }\n",
    "wrong.s": "\t.text\n\tno_such_instruction\n",
    "Makefile": "all:\n\tfalse\nneeds: x.o\nx.o: no_such.c\n\tcc -c no_such.c\ncalls:\n\tno_such_program\n",
    "build.ninja": "rule cc\n  command = cc -c $in -o $out\nbuild a.o: cc no_such.c\n",
    "pyproject.toml": "[project\n",
    "broken.py": "def f(:\n",
    "module.py": "import no_such_module\n",
}

# Command; class; what must be caught.
CASES: list[tuple[tuple[str, ...], str, dict[str, str]]] = [
    (("g++", "-c", "header.cpp"), "header-missing", {"header": "no_such_header.h", "file": "header.cpp", "line": "1"}),
    (("g++", "-c", "no_such.cpp"), "file-missing", {"name": "no_such.cpp"}),
    (("g++", "-c", "name.cpp"), "source-error", {"file": "name.cpp", "line": "1"}),
    (("g++", "calls.cpp"), "undefined-symbol", {"symbol": "nobody_defines_this()"}),
    (("g++", "one.cpp", "two.cpp", "-shared", "-fPIC"), "duplicate-symbol", {"symbol": "same()"}),
    (("g++", "one.cpp", "-shared", "-fPIC", "-lno_such"), "library-missing", {"library": "no_such"}),
    (("g++", "-fno-such-option", "-c", "one.cpp"), "unknown-flag", {"flag": "-fno-such-option", "tool": "g++"}),
    (("g++", "-c", "refuses.cpp"), "source-refuses", {"file": "refuses.cpp", "line": "1"}),
    (("g++", "-Wall", "-Werror", "-c", "unused.cpp"), "warning-as-error", {"flag": "unused-variable", "line": "1"}),
    (("g++", "-c", "wrong.s"), "assembler-error", {"file": "wrong.s", "line": "2"}),
    (("make", "needs"), "missing-input", {"name": "no_such.c"}),
    (("make", "calls"), "command-missing", {"program": "no_such_program"}),
    (("make", "all"), "build-stopped", {}),
    (("bash", "-c", "no_such_program; false"), "command-missing", {"program": "no_such_program"}),
    (("bash", "-c", "set -u; echo $NO_SUCH"), "value-unset", {"variable": "NO_SUCH"}),
    (("bash", "-c", "bash -c 'kill -9 $$'; exit 1"), "killed", {}),
]  # fmt: skip
IN_ENGLISH: list[tuple[tuple[str, ...], str, dict[str, str]]] = [
    (("g++", "-c", "asserts.cpp"), "source-refuses", {"message": "int has nine bytes", "line": "1"}),
    (("clang++", "-c", "header.cpp"), "header-missing", {"header": "no_such_header.h", "line": "1"}),
    (("clang++", "-fno-such-option", "-c", "one.cpp"), "unknown-flag", {"flag": "-fno-such-option"}),
    (("g++", "-fuse-ld=lld", "calls.cpp"), "undefined-symbol", {"symbol": "nobody_defines_this()"}),
    (("g++", "-fuse-ld=lld", "one.cpp", "-shared", "-fPIC", "-lno_such"), "library-missing", {"library": "no_such"}),
    (("g++", "-fuse-ld=gold", "calls.cpp"), "undefined-symbol", {"symbol": "nobody_defines_this()"}),
    (("mold", "-run", "g++", "calls.cpp"), "undefined-symbol", {"symbol": "nobody_defines_this()"}),
    (("lld-link", "/dll", "/noentry", "no_such.lib"), "library-missing", {"library": "no_such"}),
    (("lld-link", "/dll", "/noentry", "no_such.obj"), "file-missing", {"name": "no_such.obj"}),
    (("zsh", "-c", "set -u; echo $NO_SUCH"), "value-unset", {"variable": "NO_SUCH"}),
    (("nvcc", "-c", "header.cpp", "-x", "cu"), "header-missing", {"header": "no_such_header.h", "line": "1"}),
    (("nvcc", "-fno-such-option", "one.cpp"), "unknown-flag", {"tool": "nvcc", "flag": "-fno-such-option"}),
    (("ninja", "-f", "build.ninja"), "missing-input", {"name": "no_such.c", "target": "a.o"}),
    (("git", "clone", "https://no-such-host.invalid/x"), "network", {"host": "https://no-such-host.invalid/x/"}),
    (("cmake", "-S", "no_such_folder", "-B", "b"), "cmake-error", {}),
    (("python3", "broken.py"), "python-syntax", {"kind": "SyntaxError"}),
    (("python3", "module.py"), "python-module-missing", {"module": "no_such_module"}),
    (("dash", "-c", "no_such_program"), "command-missing", {"program": "no_such_program"}),
    (("zsh", "-c", "no_such_program"), "command-missing", {"program": "no_such_program"}),
]  # fmt: skip
LANGUAGES = ("de_DE", "fr_FR", "ja_JP", "zh_CN")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Locales of the languages, made for the tests alone; the tools' own catalogues must be installed."""
    folder = tmp_path_factory.mktemp("locales")
    if not can_make_locale("de_DE"):
        pytest.skip(ABSENT)
    make_locales(folder, LANGUAGES)
    return folder


def judged(
    folder: Path, command: tuple[str, ...], environment: dict[str, str]
) -> tuple[str, dict[str, str], str]:
    """The class that is said of what a command prints, what was caught, and the whole output."""
    variables = {"PATH": PATH, "HOME": str(folder), "GIT_TERMINAL_PROMPT": "0", **environment}
    done = subprocess.run(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
    )
    assert done.returncode != 0
    cause = diagnose([done.stdout], ()).cause
    text = done.stdout.decode("utf-8", "replace")
    return (cause.entry.id, dict(cause.captures), text) if cause else ("clean", {}, text)


@pytest.mark.parametrize(
    ("command", "error_class", "caught"), [*CASES, *IN_ENGLISH], ids=lambda case: str(case)[:40]
)
def test_in_english(folder: Path, command: tuple[str, ...], error_class: str, caught: dict[str, str]) -> None:
    tools = [
        command[0],
        *(f"ld.{word.rpartition('=')[2]}" for word in command if word.startswith("-fuse-ld=")),
    ]
    if missing := [tool for tool in tools if shutil.which(tool, path=PATH) is None]:
        pytest.skip(f"there is no {missing[0]}")
    found, captures, text = judged(folder, command, {"LC_ALL": "C.UTF-8"})
    assert found == error_class, text
    assert caught.items() <= captures.items(), text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("command", "error_class", "caught"), CASES, ids=lambda case: str(case)[:40])
def test_in_other_languages(
    folder: Path,
    locales: Path,
    language: str,
    command: tuple[str, ...],
    error_class: str,
    caught: dict[str, str],
) -> None:
    environment = {"LOCPATH": str(locales), "LC_ALL": f"{language}.UTF-8", "LANG": f"{language}.UTF-8"}
    found, captures, text = judged(folder, command, environment)
    assert found == error_class, text
    assert caught.items() <= captures.items() or (language == "ja_JP" and found == "missing-input"), text


NOBODY = {"DISTCC_HOSTS": "127.0.0.1:1"}
NOWHERE = {"DISTCC_HOSTS": "no-such.invalid"}
ALONE = {"DISTCC_FALLBACK": "0"}
NO_REDIS = {"SCCACHE_REDIS_ENDPOINT": "redis://127.0.0.1:1"}
# Tool; its arguments; environment; class, or clean; what must be caught.
CACHES: list[tuple[str, tuple[str, ...], dict[str, str], str, dict[str, str]]] = [
    ("distcc", ("g++", "-c", "one.cpp"), NOBODY, "clean", {}),
    ("distcc", ("g++", "-c", "one.cpp"), NOBODY | ALONE, "launcher-failed", {"host": "127.0.0.1:1"}),
    ("distcc", ("g++", "-c", "one.cpp"), NOWHERE | ALONE, "launcher-failed", {"host": "no-such.invalid"}),
    ("distcc", ("g++", "-c", "name.cpp"), NOBODY, "source-error", {"file": "name.cpp", "line": "1"}),
    ("sccache", ("no_such_program", "-c", "one.cpp"), {}, "launcher-failed", {"refused": "caused by"}),
    ("sccache", ("g++", "-c", "name.cpp"), {}, "source-error", {"file": "name.cpp", "line": "1"}),
    ("sccache", ("g++", "-c", "one.cpp"), {"SCCACHE_DIR": "/proc/no"}, "launcher-failed", {"server": "yes"}),
    ("sccache", ("--start-server",), NO_REDIS, "launcher-failed", {"server": "yes"}),
    ("sccache", ("--stop-server",), {}, "clean", {}),
    ("ccache", ("no_such_program", "-c", "one.cpp"), {}, "command-missing", {"program": "no_such_program"}),
    ("ccache", ("g++", "-c", "one.cpp"), {"CCACHE_DIR": "/proc/no"}, "tool-error", {"tool": "ccache"}),
    ("icecc", ("g++", "-c", "one.cpp"), {}, "clean", {}),
    ("icecc", ("g++", "-c", "name.cpp"), {}, "source-error", {"file": "name.cpp", "line": "1"}),
    ("icecc", ("no_such", "-c", "one.cpp"), {"ICECC_VERSION": "none"}, "command-missing", {"program": "no_such"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "arguments", "environment", "error_class", "caught"), CACHES, ids=lambda case: str(case)[:30]
)
def test_compiler_caches_and_helpers(
    folder: Path,
    tool: str,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    error_class: str,
    caught: dict[str, str],
) -> None:
    if shutil.which(tool, path=PATH) is None:
        pytest.skip(f"there is no {tool}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = {
        "PATH": PATH,
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "SCCACHE_SERVER_PORT": port,
    }
    try:
        done = subprocess.run(
            (tool, *arguments),
            cwd=folder,
            env=variables | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
    finally:
        if tool == "sccache":
            stop = (tool, "--stop-server")
            subprocess.run(stop, env=variables, capture_output=True, check=False, timeout=60)
    cause = diagnose([done.stdout], ()).cause
    text = done.stdout.decode("utf-8", "replace")
    assert (cause.entry.id if cause else "clean") == error_class, text
    assert cause is None or caught.items() <= cause.captures.items(), text
