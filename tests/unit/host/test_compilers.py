"""Which compilers a build would use, from real files on a PATH of the test's own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from put import put
from torchwheel.host.compilers import ask_version, find_compilers
from torchwheel.host.machine import Compiler
from torchwheel.host.programs import NoAnswer

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are files with the executable bit")


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    return put(path, text, 0o755)


def link(path: Path, target: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def identity(path: Path) -> str:
    content = path.read_bytes()
    return f"{path.name}:{len(content)}:{hashlib.sha256(content).hexdigest()[:16]}"


def one(language: str, environment: dict[str, str], system: str = "Linux") -> Compiler:
    found = {compiler.language: compiler for compiler in find_compilers(environment, system)}
    return found[language]  # type: ignore[index]


def test_the_usual_names_through_links(tmp_path: Path) -> None:
    gcc = program(tmp_path / "lib/x86_64-linux-gnu-gcc-12")
    gxx = program(tmp_path / "lib/x86_64-linux-gnu-g++-12")
    cc = link(tmp_path / "bin/cc", link(tmp_path / "etc/cc", gcc))
    cxx = link(tmp_path / "bin/c++", gxx)
    program(tmp_path / "bin/clang")
    assert find_compilers({"PATH": str(tmp_path / "bin")}, "Linux") == (
        Compiler("c", "gcc", str(cc), "12", identity(gcc)),
        Compiler("cxx", "gcc", str(cxx), "12", identity(gxx)),
    )


def test_the_cxx_compiler_is_looked_for_beside_the_c_compiler_first(tmp_path: Path) -> None:
    """As CMake does, which would else build with another one than was checked (CMakeDetermineCompiler.cmake)."""
    for name in ("early/c++", "usual/cc", "usual/g++", "other/gcc", "other/clang++", "alone/gcc"):
        program(tmp_path / name)
    path = f"{tmp_path}/early:{tmp_path}/usual"
    beside = {
        "": "usual/g++",
        f"{tmp_path}/other/gcc": "other/clang++",
        f"{tmp_path}/alone/gcc": "early/c++",
        "absent": "early/c++",
    }
    found = {cc: one("cxx", {"PATH": path, "CC": cc}).path for cc in beside}
    assert found == {cc: f"{tmp_path}/{name}" for cc, name in beside.items()}
    assert one("cxx", {"PATH": path, "CXX": "c++"}).path == f"{tmp_path}/early/c++"


def test_variables_with_launchers_and_arguments(tmp_path: Path) -> None:
    clang = program(tmp_path / "a folder/clang-18")
    gxx = program(tmp_path / "bin/g++-13")
    program(tmp_path / "bin/cc")
    for launcher in ("sccache", "ccache"):
        program(tmp_path / "bin" / launcher)
    environment = {
        "PATH": str(tmp_path / "bin"),
        "CC": f"sccache '{clang}' -m64",
        "CXX": "ccache distcc g++-13",
    }
    assert find_compilers(environment, "Linux") == (
        Compiler("c", "clang", str(clang), "18", identity(clang), ("sccache",), ("-m64",)),
        Compiler("cxx", "gcc", str(gxx), "13", identity(gxx), ("ccache", "distcc"), (), "distcc"),
    )


def test_a_folder_of_links_to_ccache_is_looked_behind(tmp_path: Path) -> None:
    ccache = program(tmp_path / "bin/ccache")
    shadow = link(tmp_path / "lib/ccache/gcc", ccache)
    gcc = program(tmp_path / "bin/gcc")
    environment = {"PATH": os.pathsep.join([str(shadow.parent), str(tmp_path / "bin")])}
    assert one("c", environment) == Compiler("c", "gcc", str(shadow), "", identity(gcc))


def test_only_ccache_is_there(tmp_path: Path) -> None:
    ccache = program(tmp_path / "bin/ccache")
    shadow = link(tmp_path / "bin/gcc", ccache)
    assert one("c", {"PATH": str(tmp_path / "bin")}) == Compiler(
        "c", "gcc", str(shadow), "", identity(ccache)
    )


def test_a_compiler_that_is_asked_for_and_not_there(tmp_path: Path) -> None:
    compiler = one("cxx", {"PATH": str(tmp_path), "CXX": "g++-99"})
    assert compiler == Compiler("cxx", "gcc", "g++-99", "", "")
    assert not compiler.found
    with pytest.raises(NoAnswer, match=r"there is no g\+\+-99"):
        ask_version(compiler)


def test_an_unclosed_quote_is_taken_as_it_stands(tmp_path: Path) -> None:
    assert one("c", {"PATH": str(tmp_path), "CC": "gcc '-DX"}).arguments == ("'-DX",)


def test_visual_studio(tmp_path: Path) -> None:
    cl = program(tmp_path / "VC/Tools/MSVC/14.38.33130/bin/Hostx64/x64/cl")
    program(tmp_path / "bin/gcc")
    search = os.pathsep.join([str(tmp_path / "bin"), str(cl.parent)])
    assert find_compilers({"PATH": search}, "Windows") == (
        Compiler("c", "msvc", str(cl), "19.38.33130", identity(cl)),
        Compiler("cxx", "msvc", str(cl), "19.38.33130", identity(cl)),
    )


def test_backslashes_are_kept_on_windows() -> None:
    compiler = one("c", {"CC": '"C:\\Program Files\\LLVM\\bin\\clang-cl.exe" /O2'}, "Windows")
    assert compiler == Compiler(
        "c", "clang", "C:\\Program Files\\LLVM\\bin\\clang-cl.exe", "", "", (), ("/O2",)
    )


@pytest.mark.parametrize("system", ["Linux", "Windows"])
def test_a_path_with_spaces_needs_no_quotes(tmp_path: Path, system: str) -> None:
    """CMake takes it so, and tells it so; cl lies in such a folder."""
    cl = program(tmp_path / "Program Files" / "cl")
    found = one("cxx", {"PATH": str(tmp_path), "CXX": str(cl)}, system)
    assert found == Compiler("cxx", "msvc", str(cl), "", identity(cl))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gcc", "gcc"),
        ("aarch64-linux-gnu-g++-13", "gcc"),
        ("clang++", "clang"),
        ("clang-cl", "clang"),
        ("x86_64-conda-linux-gnu-c++", "unknown"),
        ("icx", "unknown"),
        ("cl", "msvc"),
    ],
)
def test_kind_by_name(tmp_path: Path, name: str, kind: str) -> None:
    program(tmp_path / name)
    assert one("cxx", {"PATH": str(tmp_path), "CXX": name}).kind == kind


@pytest.mark.parametrize(
    ("name", "script", "expected"),
    [
        ("gcc", '[ "$1 $2" = "-dumpfullversion -dumpversion" ] && echo 12.2.0', "12.2.0"),
        ("clang", '[ "$*" = "-dumpversion" ] && echo 18.1.8', "18.1.8"),
        ("gcc", "printf '1.%.0s' $(seq 100)", "1" + ".1" * 9),
        ("cl", 'echo "Microsoft (R) C/C++ Compiler Version 19.38.33135 for x64" >&2', "19.38.33135"),
    ],
)
def test_the_full_version_comes_from_the_compiler(
    tmp_path: Path, name: str, script: str, expected: str
) -> None:
    program(tmp_path / name, f"#!/bin/sh\n{script}\n")
    assert ask_version(one("c", {"PATH": str(tmp_path), "CC": name})) == expected


@pytest.mark.parametrize("script", ["exit 1", "echo garbage"])
def test_a_compiler_that_does_not_tell_its_version(tmp_path: Path, script: str) -> None:
    program(tmp_path / "icx", f"#!/bin/sh\n{script}\n")
    with pytest.raises(NoAnswer):
        ask_version(one("c", {"PATH": str(tmp_path), "CC": "icx"}))


def test_finding_runs_nothing(tmp_path: Path) -> None:
    program(tmp_path / "bin/cc", f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    find_compilers({"PATH": str(tmp_path / "bin")}, "Linux")
    assert not (tmp_path / "ran").exists()


def test_one_that_is_named_relative_to_this_folder_is_found_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = program(tmp_path / "wrap.sh")
    monkeypatch.chdir(tmp_path)
    assert one("cxx", {"CXX": "./wrap.sh"}).path == str(wrapper)


def test_a_script_that_was_replaced_is_another_one_whatever_its_time_says(tmp_path: Path) -> None:
    found = set()
    for flag in ("-O1", "-O2"):
        os.utime(program(tmp_path / "c++", f'#!/bin/sh\nexec g++ {flag} "$@"\n'), (1e9, 1e9))
        found.add(one("cxx", {"CXX": str(tmp_path / "c++")}).identity)
    large = program(tmp_path / "g++", "#" * (1 << 16) + "#")
    assert one("cxx", {"CXX": str(large)}).identity == f"g++:65537:{large.stat().st_mtime_ns}"
    assert len(found) == 2


@pytest.mark.skipif(os.name == "nt", reason="its scripts are a shell's")
@pytest.mark.parametrize(
    ("call", "place"),
    [
        ('exec "{folder}/tools/real.sh"', "tools/real.sh"),
        ('exec "$(dirname "$0")/real.sh"', "real.sh"),
        (". real.sh", "real.sh"),
        ('exec "{folder}/tools/g++-13"', "tools/g++-13"),
        ("exec g++-13", "bin/g++-13"),
        ('exec "{folder}/first.sh"', "second.sh"),
    ],
)
def test_a_script_is_another_one_with_what_it_calls(tmp_path: Path, call: str, place: str) -> None:
    for folder in ("tools", "bin"):
        (tmp_path / folder).mkdir()
    program(tmp_path / "first.sh", f'#!/bin/sh\nexec "{tmp_path}/second.sh"\n')
    # Scripts that name each other end.
    program(tmp_path / "second.sh", f'#!/bin/sh\nexec "{tmp_path}/first.sh"\n')
    wrapper = program(tmp_path / "c++", f"#!/bin/sh\n{call.format(folder=tmp_path)}\n")
    found = []
    for text in ("one", "other", "other"):
        program(tmp_path / place, f"#!/bin/sh\nexec {text}\n")
        found.append(one("cxx", {"CXX": str(wrapper), "PATH": str(tmp_path / "bin")}).identity)
    assert (len(set(found)), found[1]) == (2, found[2])


def test_the_interpreter_of_a_script_is_none_of_it(tmp_path: Path) -> None:
    found = set()
    for text in ("one", "other"):
        program(tmp_path / "sh", f"#!{text}\n")
        program(tmp_path / "c++", f"#!{tmp_path}/sh\nexec cat\n")
        found.add(one("cxx", {"CXX": str(tmp_path / "c++")}).identity)
    assert len(found) == 1
