"""What the build folder of an extension remembers does not get into another wheel."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from extension.projects import CMAKE, MODULE, SETUP_PY, WAYS, Built
from torchwheel.extension.extension_survey import read_extension_project
from torchwheel.extension.planning import build_folder
from torchwheel.survey import BuildRequest
from torchwheel.system.locks import file_lock


@pytest.mark.long
def test_what_cmake_was_told_once_holds_for_that_build(tmp_path: Path) -> None:
    built = Built(tmp_path, "CMake")
    define = {"cmake.define.CMAKE_CXX_FLAGS": "-DGIVEN=define"}
    assert built.mark(CXXFLAGS="-DGIVEN=flags") == "first, flags"
    assert built.mark() == "first, nothing"
    assert built.mark(define) == "first, define"
    assert built.mark() == "first, nothing"
    assert built.mark(CMAKE_ARGS="-DCMAKE_CXX_FLAGS=-DGIVEN=args") == "first, args"
    assert built.mark() == "first, nothing"
    # CMake writes down all options, also one that is a secret.
    (folder,) = (tmp_path / "cache/extensions").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    # Nothing is new: CMake does not look for the compiler again.
    status, text = built.said({"wheel.build-tag": "1"}, TERM="dumb", PIP_NO_INPUT="1")
    assert (status, "CXX compiler identification" in text, "ninja: no work to do" in text) == (
        0,
        False,
        True,
    ), text


def test_a_wheel_is_built_and_proved_in_the_same_folder(tmp_path: Path) -> None:
    """What is in braces is a placeholder to scikit-build-core, and a variable of its own beats what it is told."""
    built = Built(tmp_path, "CMake")
    built.project = built.project.rename(tmp_path / "{state}")
    elsewhere = str(tmp_path / "elsewhere")
    assert built.mark(SKBUILD_BUILD_DIR=elsewhere, DESTDIR=elsewhere) == "first, nothing"
    assert [wheel.name.split("-")[1] for wheel in (tmp_path / "out").glob("*")] == ["1.2+cpu.torch2.14"]
    assert not (tmp_path / "elsewhere").exists()


def test_a_wheel_with_a_tag_for_all_platforms_does_not_pass_its_proof(tmp_path: Path) -> None:
    built = Built(tmp_path, "CMake")
    status, text = built.said({"wheel.tags": "py3-none-any", "wheel.install-dir": "elsewhere"})
    assert (status, "[wheel-tag]" in text, "[missing-module]" in text) == (3, True, True), text
    assert (
        built.mark({"wheel.tags": "cp310-abi3-any", "skip-check": "wheel-tag,tag-not-proved"})
        == "first, nothing"
    )


def test_a_wheel_of_another_build_is_not_replaced(tmp_path: Path) -> None:
    built = Built(tmp_path, "tables")
    assert built.mark() == "first, nothing"
    status, text = built.said({"env.CXXFLAGS": "-DGIVEN=other"})
    assert (status, "[output-of-another-build]" in text) == (2, True), text


@pytest.mark.parametrize("way", ["tables", "setup.py"])
def test_what_compilers_take_from_the_environment_counts(tmp_path: Path, way: str) -> None:
    """Ninja compares commands, which do not tell."""
    built = Built(tmp_path, way)
    built.write("csrc/bind.cpp", f"#include <where.h>\n{MODULE}")
    for place in ("one", "other"):
        built.write(f"{place}/where.h", f"#define GIVEN {place}\n")
    for place in ("one", "other"):
        assert built.mark(CPATH=str(built.project / place)) == f"first, {place}"


@pytest.mark.parametrize("way", ["tables", "CMake"])
def test_a_compiler_behind_a_script_that_is_another_one_now_builds_in_another_folder(
    tmp_path: Path, way: str
) -> None:
    """Ninja compares commands, and the script is the same."""
    built = Built(tmp_path, way)
    script = built.write("c++", f"#!/bin/sh\nexec cat {shlex.quote(str(built.project / 'version'))}\n")
    script.chmod(0o755)
    for version in ("12.2.0", "13.1.0"):
        built.write("version", version)
        # Nothing compiles with it.
        assert built.said(CXX=str(script))[0] != 0
    # The objects of tables are in another folder than CMake's, which is that of the hook.
    own = "lock" if way == "tables" else "backend.lock"
    assert len(list((tmp_path / "cache/extensions").glob(f"*/{own}"))) == 2


def second_waits(
    built: Built,
    first: subprocess.Popen[str],
    held: Path,
    go_on: Path,
    start: Callable[[], subprocess.Popen[str]],
) -> None:
    """Start another run while the first is ``held``, let that ``go_on`` when the other waits, and see both end well."""
    while not held.exists():
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.02)
    second = start()
    assert second.stdout
    said = []
    for line in second.stdout:
        said.append(line)
        if line == f"torchwheel: waiting for another build in {built.project} to end\n":
            break
    go_on.touch()
    for process in (first, second):
        text = process.communicate()[0]
        assert process.returncode == 0, "".join(said) + text


@pytest.mark.parametrize("cache", ["cache", "another cache"])
def test_two_builds_at_once_share_setuptools_build_folder_in_turn(cache: str, tmp_path: Path) -> None:
    """For another build type, and so in another build folder of torchwheel's, but in the same one of setuptools'."""
    built = Built(tmp_path, "setup.py")
    held, go_on = tmp_path / "held", tmp_path / "go on"
    waiting = f"""\
import os, pathlib, time
class Waiting(BuildExtension):
    def run(self):
        super().run()
        if "HOLD" in os.environ:
            pathlib.Path({str(held)!r}).touch()
            while not pathlib.Path({str(go_on)!r}).exists():
                time.sleep(0.02)
"""
    built.write(
        "setup.py",
        SETUP_PY.replace("extension =", f"{waiting}extension =").replace(": BuildExtension", ": Waiting"),
    )
    first = built.start(out="first", HOLD="1", CFLAGS="-DGIVEN=first")
    second_waits(
        built,
        first,
        held,
        go_on,
        lambda: built.start(
            {"build-type": "Debug"},
            out="second",
            CFLAGS="-DGIVEN=second",
            TORCHWHEEL_CACHE_DIR=str(tmp_path / cache),
        ),
    )
    assert (built.mark_in("first"), built.mark_in("second")) == ("first, first", "first, second")


def test_a_source_that_came_while_its_build_waited_is_compiled(tmp_path: Path) -> None:
    built = Built(tmp_path, "tables")
    assert built.mark() == "first, nothing"
    (lock,) = (tmp_path / "cache" / "extensions").glob("*/backend.lock")
    with file_lock(lock):
        waits = built.start()
        assert waits.stdout
        said = []
        for line in waits.stdout:
            said.append(line)
            if "waiting for another build" in line:
                break
        built.write("csrc/more.cpp", "int more;\n")
    text = waits.communicate()[0]
    assert (waits.returncode, "compile csrc/more.cpp" in text) == (0, True), "".join(said) + text


def test_a_default_that_was_changed_is_taken(tmp_path: Path) -> None:
    built = Built(tmp_path, "CMake")
    option = (
        'option(WITH_X "" {})\nif(WITH_X)\n  target_compile_definitions(tiny._C PRIVATE GIVEN=x)\nendif()\n'
    )
    for default, mark in (("ON", "first, x"), ("OFF", "first, nothing")):
        built.write("CMakeLists.txt", CMAKE + option.format(default))
        assert built.mark() == mark


@pytest.mark.long
@pytest.mark.parametrize("way", ["-C", "CMAKE_ARGS", "override", "preset"])
def test_files_that_cmakes_arguments_name_are_read_each_time(tmp_path: Path, way: str) -> None:
    """CMake remembers what they said once, and watches neither them nor what they include."""
    built = Built(tmp_path, "CMake")
    given = {"cmake.args": "--preset=own" if way == "preset" else "-Cini tial.cmake"}
    variables = {"CMAKE_ARGS": "'-Cini tial.cmake'"} if way == "CMAKE_ARGS" else {}
    built.write("ini tial.cmake", "include(${CMAKE_CURRENT_LIST_DIR}/more.cmake)\n")
    if way == "override":
        override = '[[tool.scikit-build.overrides]]\nif.state = "wheel"\ncmake.args = ["-Cini tial.cmake"]\n'
        built.write("pyproject.toml", WAYS["CMake"]["pyproject.toml"] + override)
    if way in ("CMAKE_ARGS", "override"):
        given = {}
    for mark in ("one", "other"):
        built.write("more.cmake", f'set(CMAKE_CXX_FLAGS -DGIVEN={mark} CACHE STRING "")\n')
        own = {"name": "own", "generator": "Ninja", "cacheVariables": {"CMAKE_CXX_FLAGS": f"-DGIVEN={mark}"}}
        built.write("CMakePresets.json", json.dumps({"version": 3, "configurePresets": [own]}))
        assert built.mark(given, **variables) == f"first, {mark}"
    built.write("more.cmake", "")
    built.write(
        "CMakePresets.json", json.dumps({"version": 3, "configurePresets": [{**own, "cacheVariables": {}}]})
    )
    assert built.mark(given, **variables) == "first, nothing"


def test_what_an_editable_install_alone_is_told_is_in_no_wheel(tmp_path: Path) -> None:
    built = Built(tmp_path, "CMake")
    override = '[[tool.scikit-build.overrides]]\nif.state = "editable"\n'
    flags = 'cmake.define.CMAKE_CXX_FLAGS = "-DGIVEN=editable"\n'
    built.write("pyproject.toml", WAYS["CMake"]["pyproject.toml"] + override + flags)
    editable = built.start(out="editable", hook="build_editable")
    assert (editable.communicate()[0], editable.returncode)[1] == 0
    assert built.mark_in("editable") == "first, editable"
    assert built.mark() == "first, nothing"


def test_an_extension_that_is_not_described_any_more_is_not_expected(tmp_path: Path) -> None:
    built = Built(tmp_path, "CMake")
    head, call = CMAKE.split("torchwheel_add_extension")
    built.write("CMakeLists.txt", f"{head}if(NOT WITHOUT)\n  torchwheel_add_extension{call}endif()\n")
    assert built.mark() == "first, nothing"
    (built.folder / "out").rename(built.folder / "before")
    status, text = built.said({"cmake.define.WITHOUT": "ON"})
    assert (status, [wheel.name.split("-")[:2] for wheel in (tmp_path / "out").iterdir()]) == (
        0,
        [["tiny", "1.2"]],
    ), text


def test_other_targets_of_cmake_are_built_in_another_folder(tmp_path: Path) -> None:
    """Else what is installed and not built would be there as another build left it."""
    built = Built(tmp_path, "CMake")
    text = (built.project / "pyproject.toml").read_text(encoding="utf-8")

    def folder(more: str) -> Path:
        built.write("pyproject.toml", text + more)
        environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path), "PATH": os.environ["PATH"]}
        return build_folder(read_extension_project(BuildRequest(built.project, {}, environment)), "")

    own = 'build.targets = ["tiny._C"]\n'
    override = '[[tool.scikit-build.overrides]]\nif.state = "wheel"\nbuild.targets = ["other"]\n'
    folders = {folder(more) for more in ("", f"[tool.scikit-build]\n{own}", override)}
    assert (len(folders), folder("[tool.scikit-build]\noverrides = 1\n")) == (3, folder(""))


def test_flags_of_the_environment_reach_a_table(tmp_path: Path) -> None:
    """PyTorch's own command reads CFLAGS alone, and CMake has read both."""
    built = Built(tmp_path, "tables")
    built.write("include/own.h", "")
    assert built.mark(CXXFLAGS="-DGIVEN=cxx", CFLAGS="-DOWN=c") == "c, cxx"
    # Ninja reads `$`, as in PyTorch's own command.
    assert built.mark(CXXFLAGS="-DGIVEN=a$$b$none", CFLAGS="-DOWN=c") == "c, a$b"
    assert built.mark(CFLAGS="-DOWN=c") == "c, nothing"


@pytest.mark.parametrize("way", ["tables", "setup.py"])
def test_variables_among_the_settings_reach_the_build(tmp_path: Path, way: str) -> None:
    built = Built(tmp_path, way)
    built.write("csrc/bind.cpp", f"#include <where.h>\n{MODULE}")
    built.write("one/where.h", "#define GIVEN one\n")
    built.write("c++", '#!/bin/sh\nexec c++ -DOWN=other "$@"\n').chmod(0o755)
    built.write("include/own.h", "")
    given = {"env.CPATH": str(built.project / "one"), "env.CXX": str(built.project / "c++")}
    assert built.mark(given) == "other, one"


def test_what_torchwheel_refuses_no_override_for_failures_leaves_out(tmp_path: Path) -> None:
    """scikit-build-core would pack the project without its module, under no label."""
    built = Built(tmp_path, "CMake")
    override = "[[tool.scikit-build.overrides]]\nif.failed = true\nwheel.cmake = false\n"
    built.write("pyproject.toml", WAYS["CMake"]["pyproject.toml"] + override)
    built.write("CMakeLists.txt", CMAKE.replace("csrc/*.cpp", "csrc/none*.cpp"))
    status, text = built.said()
    assert (status, "[no-source-matches]" in text, list((tmp_path / "out").iterdir())) == (2, True, [])


def test_no_editable_install_is_built_in_the_checkout(tmp_path: Path) -> None:
    """Its wheel had no label, and nothing of it was proved."""
    built = Built(tmp_path, "CMake")
    override = '[[tool.scikit-build.overrides]]\nif.state = "editable"\neditable.mode = "inplace"\n'
    built.write("pyproject.toml", WAYS["CMake"]["pyproject.toml"] + override)
    before = set(built.project.rglob("*"))
    editable = built.start(hook="build_editable")
    text = editable.communicate()[0]
    assert (editable.returncode, "[editable-in-place]" in text) == (2, True)
    assert (set(built.project.rglob("*")), list((tmp_path / "out").iterdir())) == (before, [])


@pytest.mark.parametrize("way", ["tables", "CMake", "setup.py"])
def test_a_library_by_name_that_is_replaced_by_an_older_one_is_linked_again(way: str, tmp_path: Path) -> None:
    built, library = Built(tmp_path, way), tmp_path / "lib" / "libown.a"
    library.parent.mkdir()
    file, end, given = {
        "tables": (
            "pyproject.toml",
            'include-dirs = ["include"]\n',
            'libraries = ["own"]\nlibrary-dirs = ["{}"]\n',
        ),
        "CMake": ("CMakeLists.txt", "INCLUDE_DIRS include", ' LIBRARIES own LIBRARY_DIRS "{}"'),
        "setup.py": ("setup.py", 'include_dirs=["include"]', ', libraries=["own"], library_dirs=["{}"]'),
    }[way]
    text = (built.project / file).read_text(encoding="utf-8")
    assert end in text
    built.write(file, text.replace(end, end + given.format(library.parent)))
    source = built.project / "csrc/bind.cpp"
    own = 'extern "C" const char* own_text();\nconst char* volatile linked = own_text();\n'
    built.write("csrc/bind.cpp", source.read_text(encoding="utf-8") + own)
    for variant in ("first", "second"):
        library.unlink(missing_ok=True)
        code = f'const char* own_text(void) {{ return "linked: {variant}"; }}\n'
        compiled = tmp_path / "own.o"
        subprocess.run(
            ["cc", "-fPIC", "-c", "-x", "c", "-", "-o", compiled], input=code, text=True, check=True
        )
        subprocess.run(["ar", "qc", library, compiled], check=True)
        os.utime(library, (1e9, 1e9))
        built.mark()
        with zipfile.ZipFile(next((tmp_path / "out").glob("*.whl"))) as archive:
            content = b"".join(archive.read(name) for name in archive.namelist() if ".so" in name)
        assert f"linked: {variant}".encode() in content
