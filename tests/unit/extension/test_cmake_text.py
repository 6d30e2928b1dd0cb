from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extension.planning import WINDOWS, WINDOWS_CUDA_13, WINDOWS_PYTHON, cpu_torch, inputs, installed, plan
from torchwheel.extension.cmake.text import cmake_text, target_text
from torchwheel.extension.extension_plan import Extension, ExtensionPlan
from torchwheel.extension.planning import make_extension_plan
from torchwheel.extension.torch_install.installed_torch import InstalledTorch

BELOW = "tw/pkg._C"


def below(folder: Path, extension: Extension) -> ExtensionPlan:
    """The plan of an extension in a folder of CMake's build folder."""
    given = inputs(folder, extension, torch=cpu_torch(), toolkit=None)
    return make_extension_plan(replace(given, below=BELOW))


def target(planned: ExtensionPlan) -> str:
    """The text of a plan's only extension."""
    (only,) = planned.extensions
    return target_text(planned, only)


def test_an_extension_for_the_cpu(tmp_path: Path) -> None:
    extension = Extension(
        name="pkg._C",
        sources=("csrc/a.cpp",),
        libraries=("m",),
        define_macros=(("TEXT", '"$a b"'),),
        link_flags=("-Wl,-rpath,$ORIGIN/own", "-Wl,-rpath,$ORIGIN/own"),
        depends=("csrc/x.inc",),
    )
    planned = below(tmp_path, extension)
    head = cmake_text(planned, [tmp_path / "pyproject.toml"])
    body = target(planned).replace(planned.below, f"{BELOW}-1")
    assert f"CMAKE_CONFIGURE_DEPENDS [[{tmp_path}/pyproject.toml]])" in head
    assert "cmake_policy(SET CMP0116 OLD)" in head
    assert head.splitlines()[-1] == "add_subdirectory([[pkg._C]])"
    flags = (
        "-O3 -DNDEBUG -fPIC -fwrapv -Wall{standard} '-DTEXT=\"$$a b\"' -DTORCH_EXTENSION_NAME=_C "
        "-DTORCH_API_INCLUDE_EXTENSION_H -isystem tw/pkg._C-1/torch/include "
        "-isystem tw/pkg._C-1/torch/include/torch/csrc/api/include -isystem /usr/include/python3.11"
    )
    assert body.splitlines() == [
        f'string(CONCAT CMAKE_C_FLAGS "${{own_c_flags}} " [[{flags.format(standard="")}]])',
        f'string(CONCAT CMAKE_CXX_FLAGS "${{own_cxx_flags}} " [[{flags.format(standard=" -std=c++20")}]])',
        'string(CONCAT CMAKE_CXX_STANDARD_LIBRARIES "${own_libraries} " [[-lm -Wl,--push-state,--as-needed '
        "-ltorch_python -ltorch_cpu -ltorch -lc10 -Wl,--pop-state '-Wl,-rpath,$$ORIGIN/own' "
        "'-Wl,-rpath,$$ORIGIN/own']])",
        'string(CONCAT CMAKE_MODULE_LINKER_FLAGS "${own_linker_flags} " [[-Ltw/pkg._C-1/torch/lib]])',
        "add_library([[pkg._C]] MODULE)",
        'target_sources([[pkg._C]] PRIVATE "${CMAKE_BINARY_DIR}/tw/source/csrc/a.cpp")',
        'set_source_files_properties("${CMAKE_BINARY_DIR}/tw/source/csrc/a.cpp" PROPERTIES '
        'OBJECT_DEPENDS "${CMAKE_BINARY_DIR}/tw/source/csrc/x.inc")',
        "set_target_properties([[pkg._C]] PROPERTIES",
        '  DEFINE_SYMBOL ""',
        '  PREFIX "" OUTPUT_NAME [[_C]] SUFFIX [[.cpython-311-x86_64-linux-gnu.so]]',
        "  INSTALL_RPATH [[$ORIGIN/../torch/lib]] BUILD_WITH_INSTALL_RPATH TRUE",
        "  CXX_SCAN_FOR_MODULES FALSE UNITY_BUILD FALSE)",
        "install(TARGETS [[pkg._C]] LIBRARY DESTINATION [[pkg]])",
    ]


def test_what_is_not_part_of_the_package_is_not_installed(tmp_path: Path) -> None:
    extension = Extension(name="pkg._C", sources=("a.cpp",))
    planned = below(tmp_path, extension)
    assert "install(" not in target_text(planned, planned.extensions[0], install=False)


def test_for_another_gpu_a_compiler_cache_knows_what_is_compiled_for_none(tmp_path: Path) -> None:
    extension = Extension(name="pkg._C", sources=("csrc/a.cpp", "csrc/b.cu"))

    def steps(target: str, torch: InstalledTorch | None = None) -> list[tuple[str, ...]]:
        given = inputs(tmp_path, extension, config={"target": target}, torch=torch)
        planned = make_extension_plan(replace(given, below=BELOW)).extensions[0]
        return [step.command for step in planned.steps]

    host, device, link = steps("rtx5070")
    assert (steps("a100")[0], steps("a100")[2]) == (host, link)
    assert steps("a100")[1] != device
    # Nothing looks at PyTorch's headers again.
    assert steps("rtx5070", installed(identity="2.14.1+cu130, built again"))[0] != host


def test_nvcc_runs_by_the_plans_own_command(tmp_path: Path) -> None:
    extension = Extension(name="pkg._C", sources=("csrc/k.cu",))
    planned = plan(tmp_path, extension, config={"arch": "9.0;12.0"}, launcher=("/usr/bin/ccache",))
    (compiling, *_) = planned.extensions[0].steps
    lines = target(planned).splitlines()
    start = lines.index("add_custom_command(")
    words = [f"[[{word}]]" if "]" not in word else f"[=[{word}]=]" for word in compiling.command]
    ask = "$<TARGET_PROPERTY:pkg._C,"
    assert lines[start : start + 11] == [
        "add_custom_command(",
        '  OUTPUT "${CMAKE_BINARY_DIR}/pkg._C/csrc/k.cu.o"',
        f"  COMMAND [[/usr/bin/ccache]] {' '.join(words)}",
        f'    "$<$<BOOL:{ask}INCLUDE_DIRECTORIES>>:-I$<JOIN:{ask}INCLUDE_DIRECTORIES>,;-I>>"',
        f'    "$<$<BOOL:{ask}COMPILE_DEFINITIONS>>:-D$<JOIN:{ask}COMPILE_DEFINITIONS>,;-D>>"',
        '  DEPENDS "${CMAKE_BINARY_DIR}/source/csrc/k.cu"',
        '  DEPFILE "${CMAKE_BINARY_DIR}/pkg._C/csrc/k.cu.o.d"',
        '  WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"',
        "  COMMENT [[compile csrc/k.cu for sm90, sm120]]",
        "  COMMAND_EXPAND_LISTS VERBATIM)",
        'target_sources([[pkg._C]] PRIVATE "${CMAKE_BINARY_DIR}/pkg._C/csrc/k.cu.o")',
    ]


def test_windows(tmp_path: Path) -> None:
    planned = plan(
        tmp_path,
        Extension(name="pkg._C", sources=("a.cpp", "k.cu")),
        config={"target": "rtx5070"},
        host=WINDOWS,
        python=WINDOWS_PYTHON,
        toolkit=WINDOWS_CUDA_13,
    )
    assert "CMAKE_DEPFILE_FLAGS_CXX" not in cmake_text(planned)
    text = target(planned)
    assert "SUFFIX [[.cp311-win_amd64.pyd]]" in text
    assert "/EHsc" in text
    assert '"/LIBPATH:C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v13.0/lib/x64"' in text
    assert "torch_cpu.lib" in text
    assert "INSTALL_RPATH [[]]" in text


def test_a_word_of_nvccs_command_stays_one_word(tmp_path: Path) -> None:
    """COMMAND_EXPAND_LISTS ends a word at a semicolon, and an expression in it would be evaluated."""
    macros = (("LIST", "a;b"), ("EXPRESSION", "$<1:x>"))
    extension = Extension(name="pkg._C", sources=("k.cu",), define_macros=macros)
    given = inputs(tmp_path, extension, host=WINDOWS, python=WINDOWS_PYTHON, toolkit=WINDOWS_CUDA_13)
    text = target(make_extension_plan(replace(given, below=BELOW)))
    assert "[[-DLIST=a\\;b]] [[-DEXPRESSION=$<1:$><1:x>]]" in text
