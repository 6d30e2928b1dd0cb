from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extension.planning import plan, stepped
from torchwheel.extension.cmake.text import target_text
from torchwheel.extension.extension_plan import Extension, ExtensionPlan, Flags

FLAGS = Flags(
    ("-fPIC", '-DTEXT="$a b"'), ("-shared",), ("-lm", "-Wl,-rpath,$ORIGIN/own", "-Wl,-rpath,$ORIGIN/own")
)


def target(planned: ExtensionPlan) -> str:
    """The text of a plan's only extension."""
    (only,) = planned.extensions
    return target_text(planned, only)


def test_nvcc_runs_by_the_plans_own_command(tmp_path: Path) -> None:
    extension = Extension(name="pkg._C", sources=("csrc/k.cu",))
    made = stepped(plan(tmp_path, extension, config={"arch": "9.0;12.0"}))
    (one,) = made.extensions
    # COMMAND_EXPAND_LISTS ends a word at a semicolon, and an expression in it would be evaluated.
    compiling = replace(one.steps[0], command=("nvcc", "-DLIST=a;b", "-DEXPRESSION=$<1:x>"))
    made = replace(made, extensions=(replace(one, steps=(compiling, *one.steps[1:]), flags=FLAGS),))
    lines = target(made).splitlines()
    start = lines.index("add_custom_command(")
    ask = "$<TARGET_PROPERTY:pkg._C,"
    assert lines[start : start + 11] == [
        "add_custom_command(",
        '  OUTPUT "${CMAKE_BINARY_DIR}/objects/csrc/k.cu.o"',
        "  COMMAND [[./compiler_launcher]] [[nvcc]] [[-DLIST=a\\;b]] [[-DEXPRESSION=$<1:$><1:x>]]",
        f'    "$<$<BOOL:{ask}INCLUDE_DIRECTORIES>>:-I$<JOIN:{ask}INCLUDE_DIRECTORIES>,;-I>>"',
        f'    "$<$<BOOL:{ask}COMPILE_DEFINITIONS>>:-D$<JOIN:{ask}COMPILE_DEFINITIONS>,;-D>>"',
        '  DEPENDS "${CMAKE_BINARY_DIR}/source/csrc/k.cu"',
        '  DEPFILE "${CMAKE_BINARY_DIR}/objects/csrc/k.cu.o.d"',
        '  WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"',
        "  COMMENT [[compile csrc/k.cu for sm90, sm120]]",
        "  COMMAND_EXPAND_LISTS VERBATIM)",
        'target_sources([[pkg._C]] PRIVATE "${CMAKE_BINARY_DIR}/objects/csrc/k.cu.o")',
    ]
