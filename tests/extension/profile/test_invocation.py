"""Compile commands taken apart and put together again."""

from __future__ import annotations

from pathlib import Path

from torchwheel.extension.model import Language
from torchwheel.extension.profile.invocation import Invocation, invocation_of
from torchwheel.extension.profile.model import Compile

OUT, TIMES = Path("out.o"), Path("times.csv")


def compile_of(language: Language, path: str, *command: str) -> Compile:
    return Compile("m", (path,), language, path, command)


GNU = invocation_of(
    compile_of(
        Language.CXX, "source/a.cpp",
        "/usr/bin/g++", "-O3", "-DX", "-Iown", "-isystem", "torch/include",
        "-MMD", "-MF", "m/a.o.d", "-c", "source/a.cpp", "-o", "m/a.o",
    )
)  # fmt: skip
NVCC = invocation_of(
    compile_of(
        Language.CUDA, "source/a.cu",
        "toolkit/bin/nvcc", "-ccbin=/usr/bin/g++", "-gencode=arch=compute_90,code=sm_90", "-isystem", "torch/include",
        "-MMD", "-MF", "m/a.o.d", "-dc", "source/a.cu", "-o", "m/a.o",
    )
)  # fmt: skip
MSVC = Invocation("msvc", "cl.exe", ("/O2", "/external:IC:/torch/include", "/IC:/own"), Language.CXX)


def test_what_is_read_and_written_is_taken_out() -> None:
    flags = ("-O3", "-DX", "-Iown", "-isystem", "torch/include")
    assert Invocation("gcc", "/usr/bin/g++", flags, Language.CXX) == GNU
    assert GNU.include_dirs == ("own", "torch/include")
    assert (
        Invocation(
            "nvcc",
            "toolkit/bin/nvcc",
            ("-ccbin=/usr/bin/g++", "-gencode=arch=compute_90,code=sm_90", "-isystem", "torch/include"),
            Language.CUDA,
            relocatable=True,
        )
        == NVCC
    )
    assert MSVC.include_dirs == ("C:/torch/include", "C:/own")


def test_cmake_names_the_rule_of_a_depfile_too() -> None:
    words = "c++ -Ddemo -MD -MT CMakeFiles/a.cpp.o -MF CMakeFiles/a.cpp.o.d -o CMakeFiles/a.cpp.o -c /p/a.cpp"
    assert invocation_of(compile_of(Language.CXX, "/p/a.cpp", *words.split())).flags == ("-Ddemo",)


def test_msvc_names_the_language_with_the_source() -> None:
    words = "cl.exe /nologo /O2 /DX /showIncludes /c /TpC:/p/a.cpp /Fom/a.obj /Fdm/a.pdb"
    found = invocation_of(compile_of(Language.CXX, "C:/p/a.cpp", *words.split()))
    assert (found.program, found.flags) == ("cl.exe", ("/O2", "/DX"))


def test_gcc_commands() -> None:
    head = ("/usr/bin/g++", "-O3", "-DX", "-Iown", "-isystem", "torch/include")
    assert GNU.compiling("b.cpp", OUT) == (*head, "-c", "b.cpp", "-o", "out.o")
    assert GNU.timed("b.cpp", OUT, TIMES) == (*head, "-c", "b.cpp", "-o", "out.o", "-ftime-report")
    assert GNU.reading("b.cpp", OUT) == (*head, "-fsyntax-only", "b.cpp")
    assert GNU.preprocessing("b.cpp", OUT) == (*head, "-E", "b.cpp", "-o", "out.o")


def test_clang_writes_its_trace_beside_the_object() -> None:
    clang = Invocation("clang", "clang++", (), Language.CXX)
    assert clang.timed("b.cpp", OUT, TIMES) == ("clang++", "-c", "b.cpp", "-o", "out.o", "-ftime-trace")


def test_nvcc_commands() -> None:
    head = (NVCC.program, *NVCC.flags)
    assert NVCC.timed("b.cu", OUT, TIMES) == (*head, "-dc", "b.cu", "-o", "out.o", "--time", "times.csv")
    assert NVCC.reading("b.cu", OUT) == (*head, "-dc", "b.cu", "-o", "out.o")
    assert NVCC.preprocessing("b.cu", OUT) == (*head, "-E", "b.cu", "-o", "out.o")


def test_msvc_commands() -> None:
    head = ("cl.exe", *MSVC.flags)
    assert MSVC.compiling("C:/b.cpp", OUT) == (*head, "/c", "/TpC:/b.cpp", "/Foout.o")
    assert MSVC.timed("C:/b.cpp", OUT, TIMES) == (*head, "/c", "/TpC:/b.cpp", "/Foout.o", "/Bt+")
    assert MSVC.reading("C:/b.cpp", OUT) == (*head, "/Zs", "/TpC:/b.cpp")
    assert MSVC.preprocessing("C:/b.cpp", OUT) is None


def test_flags_can_be_left_out() -> None:
    assert GNU.without(("-O3", "-g")).flags == ("-DX", "-Iown", "-isystem", "torch/include")
