"""The files that a step reads without ninja watching them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from put import put
from torchwheel.engine.step_files import CommandFiles, named_by_directives
from torchwheel.host.ninja import NinjaStep, forget_steps, read_steps


def files_of(command: str, folder: Path, **environment: str) -> set[str]:
    return CommandFiles(folder, {"PATH": str(folder), **environment}, "Linux").of_step(
        NinjaStep([], "rule", [], command)
    )


@pytest.mark.parametrize(
    "command",
    [
        "c++ @{}",
        "cc -O1 -include {} a.c",
        "c++ -Wl,--version-script={}",
        "nvcc --options-file {}",
        "nvcc -optf={}",
        "c++ -fplugin={} a.cpp",
        "{} --quiet c++ a.cpp",
        ": && {} out && :",
        "cd / && python -I -S memory_launcher.py memory_launcher.json {} c++ a.cpp",
        "cd / && python -I -S memory_launcher.py memory_launcher.json /b/compiler_launcher {} c++ a.cpp",
    ],
)
def test_a_file_in_a_command_is_found(command: str, tmp_path: Path) -> None:
    file = put(tmp_path / "my tools" / "na@m=ed", "-O2")
    assert files_of(command.format(shlex.quote(str(file))), tmp_path) == {str(file)}


def test_a_program_is_found_by_path_and_a_file_by_the_command_s_folder(tmp_path: Path) -> None:
    program, script = tmp_path / "bin" / "generate", tmp_path / "sub" / "script"
    for file in (program, script):
        file.parent.mkdir()
        file.write_text("", encoding="utf-8")
        file.chmod(0o755)
    command = f"cd {shlex.quote(str(tmp_path / 'sub'))} && generate script out"
    assert files_of(command, tmp_path, PATH=str(tmp_path / "bin")) == {str(program), str(script)}


def test_flags_that_a_compiler_reads_from_the_environment_count_for_every_command(tmp_path: Path) -> None:
    flags, nested = tmp_path / "flags", tmp_path / "nested"
    flags.write_text(f"@{shlex.quote(str(nested))}\n", encoding="utf-8")
    nested.write_text("-O1\n", encoding="utf-8")
    found = files_of("nvcc a.cu", tmp_path, NVCC_APPEND_FLAGS=f"--options-file={shlex.quote(str(flags))}")
    assert found == {str(flags), str(nested)}


def test_what_the_linker_lists_counts(tmp_path: Path) -> None:
    put(tmp_path / "linked" / "a.d", "lib/a.so: \\\n a.o \\\n /lib/with\\ blank.a \\\n ../b.a\n\na.o:\n")
    found = files_of("c++ -shared -Wl,--dependency-file=linked/a.d a.o -lb", tmp_path)
    assert found == {str(tmp_path / "a.o"), "/lib/with blank.a", str(tmp_path.parent / "b.a")}
    assert files_of("c++ -Wl,--dependency-file=linked/missing.d", tmp_path) == set()


def test_what_a_source_looks_for_is_every_place_where_it_could_be(tmp_path: Path) -> None:
    build, sources = tmp_path / "build", tmp_path / "sources"
    for folder in (build, sources):
        folder.mkdir()
    text = '#if __has_include(<a/b.h>) || __has_include ( "c.h" )\n__asm__(".incbin \\"d.bin\\"");\n'
    (sources / "x.cpp").write_text(text, encoding="utf-8")
    (build / "build.ninja").write_text("  INCLUDES = -I/one -isystem /two", encoding="utf-8")
    found = named_by_directives(build, sources, ["../sources/x.cpp", "/three/y.h"], {"CPATH": "/four"})
    folders = ("/one", "/two", "/three", "/four", str(build), str(sources))
    assert found == {
        "../sources/x.cpp": {f"{folder}/{name}" for folder in folders for name in ("a/b.h", "c.h", "d.bin")}
    }


def test_a_source_that_changed_and_kept_its_size_is_searched_again(tmp_path: Path) -> None:
    source = tmp_path / "x.cpp"
    for name in ("b.h", "c.h"):
        source.write_text(f"#if __has_include(<{name}>)\n", encoding="utf-8")
        os.utime(source, (1, 1))
        found = named_by_directives(tmp_path, tmp_path, ["x.cpp"], {})
        assert found == {"x.cpp": {str(tmp_path / name)}}


BUILD = """\
include rules.ninja
build one.h two.h | three.h: CUSTOM_COMMAND in.txt | /bin/sh || later
  COMMAND = cd /x && /bin/sh a$ b $$HOME
  DESC = text
build all: phony one.h
build a.o: CXX__a.b-c a.cpp
  FLAGS = -O2 @flags
  DEFINES = -DX=1
"""
RULES = """\
rule CUSTOM_COMMAND
  command = $COMMAND
rule CXX__a.b-c
  depfile = $DEP_FILE
  command = ${LAUNCHER}/usr/bin/c++ $DEFINES $FLAGS -c $in
"""


def test_the_steps_of_a_build_file(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(BUILD, encoding="utf-8")
    (tmp_path / "rules.ninja").write_text(RULES, encoding="utf-8")
    generator, alias, step = read_steps(tmp_path)
    assert generator == (
        ["one.h", "two.h", "three.h"],
        "CUSTOM_COMMAND",
        ["in.txt", "/bin/sh"],
        "cd /x && /bin/sh a b $HOME",
    )
    assert [one.is_run for one in (generator, alias, step)] == [True, False, True]
    assert (step.is_generator, step.command.split()) == (False, ["/usr/bin/c++", "-O2", "@flags", "-c"])


def test_steps_are_forgotten_and_their_outputs_stay(tmp_path: Path) -> None:
    log = "# ninja log v6\n0\t1\t2\tone.h\tabc\n0\t1\t2\ta.o\tdef\n"
    (tmp_path / ".ninja_log").write_text(log, encoding="utf-8")
    forget_steps(tmp_path, {"one.h", "other"})
    assert (tmp_path / ".ninja_log").read_text(encoding="utf-8") == log.replace("0\t1\t2\tone.h\tabc\n", "")
