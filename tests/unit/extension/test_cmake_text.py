from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extension.planning import cpu_torch, inputs, plan, stepped
from torchwheel.extension.cmake.text import cmake_text, target_text
from torchwheel.extension.extension_plan import Extension, ExtensionPlan, Flags, Language
from torchwheel.extension.planning import make_extension_plan

FLAGS = Flags(
    {Language.C: ("-fPIC",), Language.CXX: ("-fPIC", '-DTEXT="$a b"')},
    ("-shared",),
    ("-lm", "-Wl,-rpath,$ORIGIN/own", "-Wl,-rpath,$ORIGIN/own"),
)


def target(planned: ExtensionPlan) -> str:
    """The text of a plan's only extension."""
    (only,) = planned.extensions
    return target_text(planned, only)


def test_an_extension_for_the_cpu(tmp_path: Path) -> None:
    extension = Extension(name="pkg._C", sources=("csrc/a.cpp",))
    given = inputs(tmp_path, extension, torch=cpu_torch(), toolkit=None)
    made = stepped(make_extension_plan(replace(given, below="tw/pkg._C")))
    (one,) = made.extensions
    compiling = replace(one.steps[0], inputs=("tw/source/csrc/a.cpp", "tw/source/csrc/x.inc"))
    made = replace(made, extensions=(replace(one, steps=(compiling, *one.steps[1:]), flags=FLAGS),))
    head = cmake_text(made, [tmp_path / "pyproject.toml"])
    assert f"CMAKE_CONFIGURE_DEPENDS [[{tmp_path}/pyproject.toml]])" in head
    assert "cmake_policy(SET CMP0116 OLD)" in head
    assert head.splitlines()[-1] == "add_subdirectory([[pkg._C]])"
    assert target(made).splitlines() == [
        'string(CONCAT CMAKE_C_FLAGS "${own_c_flags} " [[-fPIC]])',
        'string(CONCAT CMAKE_CXX_FLAGS "${own_cxx_flags} " [[-fPIC \'-DTEXT="$$a b"\']])',
        "string(CONCAT CMAKE_CXX_STANDARD_LIBRARIES \"${own_libraries} \" [[-lm '-Wl,-rpath,$$ORIGIN/own' "
        "'-Wl,-rpath,$$ORIGIN/own']])",
        'string(CONCAT CMAKE_MODULE_LINKER_FLAGS "${own_linker_flags} " [[-shared]])',
        "add_library([[pkg._C]] MODULE)",
        'target_sources([[pkg._C]] PRIVATE "${CMAKE_BINARY_DIR}/tw/source/csrc/a.cpp")',
        'set_source_files_properties("${CMAKE_BINARY_DIR}/tw/source/csrc/a.cpp" PROPERTIES '
        'OBJECT_DEPENDS "${CMAKE_BINARY_DIR}/tw/source/csrc/x.inc")',
        "set_target_properties([[pkg._C]] PROPERTIES",
        '  DEFINE_SYMBOL ""',
        '  PREFIX "" OUTPUT_NAME [[_C]] SUFFIX [[.cpython-311-x86_64-linux-gnu.so]]',
        "  BUILD_WITH_INSTALL_RPATH TRUE",
        "  CXX_SCAN_FOR_MODULES FALSE UNITY_BUILD FALSE)",
        "install(TARGETS [[pkg._C]] LIBRARY DESTINATION [[pkg]])",
    ]
    assert "install(" not in target_text(made, made.extensions[0], install=False)


def test_nvcc_runs_by_the_plans_own_command(tmp_path: Path) -> None:
    extension = Extension(name="pkg._C", sources=("csrc/k.cu",))
    made = stepped(plan(tmp_path, extension, config={"arch": "9.0;12.0"}, launcher=("/usr/bin/ccache",)))
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
        "  COMMAND [[/usr/bin/ccache]] [[nvcc]] [[-DLIST=a\\;b]] [[-DEXPRESSION=$<1:$><1:x>]]",
        f'    "$<$<BOOL:{ask}INCLUDE_DIRECTORIES>>:-I$<JOIN:{ask}INCLUDE_DIRECTORIES>,;-I>>"',
        f'    "$<$<BOOL:{ask}COMPILE_DEFINITIONS>>:-D$<JOIN:{ask}COMPILE_DEFINITIONS>,;-D>>"',
        '  DEPENDS "${CMAKE_BINARY_DIR}/source/csrc/k.cu"',
        '  DEPFILE "${CMAKE_BINARY_DIR}/objects/csrc/k.cu.o.d"',
        '  WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"',
        "  COMMENT [[compile csrc/k.cu for sm90, sm120]]",
        "  COMMAND_EXPAND_LISTS VERBATIM)",
        'target_sources([[pkg._C]] PRIVATE "${CMAKE_BINARY_DIR}/objects/csrc/k.cu.o")',
    ]
