"""The exact commands of a plan, on Linux and on Windows."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest

from extension.planning import (
    CUDA_13,
    GIB,
    LINUX,
    PYTHON,
    WINDOWS,
    WINDOWS_CUDA_13,
    WINDOWS_PYTHON,
    cpu_torch,
    errors,
    installed,
    plan,
)
from torchwheel.extension.extension_plan import Extension, ExtensionPlan, Language
from torchwheel.extension.extension_wheel import expected_wheel
from torchwheel.extension.wheel_record import record_of
from torchwheel.hardware.arch import parse_architectures
from torchwheel.host.machine import Host
from torchwheel.reporting.errors import Problem, error, note, warning

KERNELS = Extension(
    name="kernels._C", sources=("csrc/op.cpp", "csrc/sm90/gemm.cu"), include_dirs=("csrc/include",)
)


def commands(made: ExtensionPlan) -> list[str]:
    """Every command as one line; there must be no error."""
    assert [finding.render() for finding in errors(made)] == []
    return [shlex.join(step.command) for extension in made.extensions for step in extension.steps]


def option(command: str, prefix: str) -> list[str]:
    return [word for word in shlex.split(command) if word.startswith(prefix)]


def test_every_word_on_linux(tmp_path: Path) -> None:
    made = plan(tmp_path, KERNELS, config={"target": "rtx5070"})
    includes = (
        "-isystem torch/include -isystem torch/include/torch/csrc/api/include -isystem toolkit/include "
        "-isystem /usr/include/python3.11"
    )
    for_cxx = includes.replace("toolkit/include", "toolkit/include -isystem toolkit/include/cccl")
    macros = "-DTORCH_EXTENSION_NAME=_C -DTORCH_API_INCLUDE_EXTENSION_H"
    assert commands(made) == [
        f"/usr/bin/c++ -O3 -DNDEBUG -fPIC -fwrapv -Wall -std=c++20 {macros} -Isource/csrc/include {for_cxx} -MMD -MF "
        "kernels._C/csrc/op.cpp.o.d -c source/csrc/op.cpp -o kernels._C/csrc/op.cpp.o",
        "toolkit/bin/nvcc -ccbin=/usr/bin/c++ -O3 -D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__ "
        "-D__CUDA_NO_BFLOAT16_CONVERSIONS__ -D__CUDA_NO_HALF2_OPERATORS__ --expt-relaxed-constexpr "
        "-Xfatbin=-compress-all -std=c++20 -Xcompiler=-fPIC -gencode=arch=compute_120,code=sm_120 "
        f"{macros} -Isource/csrc/include {includes} -MMD -MF kernels._C/csrc/sm90/gemm.cu.o.d "
        "-c source/csrc/sm90/gemm.cu -o kernels._C/csrc/sm90/gemm.cu.o",
        "/usr/bin/c++ -shared -o kernels._C/_C.cpython-311-x86_64-linux-gnu.so kernels._C/csrc/op.cpp.o "
        "kernels._C/csrc/sm90/gemm.cu.o -Ltorch/lib -Ltoolkit/lib64 -Wl,--push-state,--as-needed -ltorch_python "
        "-ltorch_cuda -lc10_cuda -ltorch_cpu -ltorch -lc10 -lcudart -Wl,--pop-state "
        "'-Wl,-rpath,$ORIGIN/../torch/lib' '-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib'",
    ]
    assert made.links == {
        "source": Path("/home/me/my project"),
        "torch": Path("/env/lib/python3.11/site-packages/torch"),
        "toolkit": Path("/usr/local/cuda-13.0"),
    }
    assert (made.local_version, made.requires) == ("cu130.sm120.torch2.14", ("torch>=2.14,<2.15",))
    assert [extension.file_name for extension in made.extensions] == [
        "kernels/_C.cpython-311-x86_64-linux-gnu.so"
    ]


def test_every_word_on_windows(tmp_path: Path) -> None:
    made = plan(
        tmp_path,
        KERNELS,
        config={"target": "rtx5070"},
        host=WINDOWS,
        python=WINDOWS_PYTHON,
        torch=installed(packages="C:/env/Lib/site-packages"),
        toolkit=WINDOWS_CUDA_13,
        project=str(PureWindowsPath(r"C:\Users\Jörg\my project")),
    )
    folder = "C:/VS/VC/Tools/MSVC/14.38.33130/bin/Hostx64/x64"
    backslashed = folder.replace("/", "\\")
    torch = "C:/env/Lib/site-packages/torch"
    cuda = "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v13.0"
    project = "C:/Users/Jörg/my project"
    folders = [
        f"{torch}/include",
        f"{torch}/include/torch/csrc/api/include",
        f"{cuda}/include",
        "C:/Python311/Include",
    ]
    warnings = [
        "/wd4819",
        "/wd4251",
        "/wd4244",
        "/wd4267",
        "/wd4275",
        "/wd4018",
        "/wd4190",
        "/wd4624",
        "/wd4067",
        "/wd4068",
    ]
    compile_cpp, compile_cu, link = (step.command for step in made.extensions[0].steps)
    assert compile_cpp == (
        f"{backslashed}\\cl.exe",
        *("/O2", "/DNDEBUG", "/nologo", "/MD", "/EHsc", "/Zc:__cplusplus", "/permissive-", "/bigobj"),
        *warnings,
        *("/std:c++20", "/DTORCH_EXTENSION_NAME=_C", "/DTORCH_API_INCLUDE_EXTENSION_H"),
        f"/I{project}/csrc/include",
        "/external:W0",
        *(f"/external:I{path}" for path in (*folders[:-1], f"{cuda}/include/cccl", folders[-1])),
        *("/showIncludes", "/c", f"/Tp{project}/csrc/op.cpp", "/Fokernels._C/csrc/op.cpp.obj"),
    )
    assert compile_cu == (
        f"{cuda}/bin/nvcc.exe",
        *("-O3", "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__"),
        *("-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__", "--expt-relaxed-constexpr"),
        *("-Xfatbin=-compress-all", "-std=c++20", "--use-local-env"),
        *(
            f"-Xcudafe=--diag_suppress={name}"
            for name in (
                "base_class_has_different_dll_interface",
                "field_without_dll_interface",
                "dll_interface_conflict_none_assumed",
                "dll_interface_conflict_dllexport_assumed",
            )
        ),
        # With MSVC 14.42 and later PyTorch's headers compile in CUDA sources only so, from 2.7 on.
        "-DUSE_CUDA",
        *(f"-Xcompiler={flag}" for flag in ("/Zc:preprocessor", "/MD", "/EHsc", *warnings)),
        "-gencode=arch=compute_120,code=sm_120",
        *("-DTORCH_EXTENSION_NAME=_C", "-DTORCH_API_INCLUDE_EXTENSION_H", f"-I{project}/csrc/include"),
        *(word for path in folders for word in ("-isystem", path)),
        # Of overlays/sm120.toml, for Windows.
        "-allow-unsupported-compiler",
        *("-MMD", "-MF", "kernels._C/csrc/sm90/gemm.cu.obj.d"),
        *("-c", f"{project}/csrc/sm90/gemm.cu", "-o", "kernels._C/csrc/sm90/gemm.cu.obj"),
    )
    assert link == (
        f"{backslashed}\\link.exe",
        *(
            "/nologo",
            "/DLL",
            "/OUT:kernels._C/_C.cp311-win_amd64.pyd",
            "/IMPLIB:kernels._C/_C.lib",
            "/EXPORT:PyInit__C",
        ),
        *("kernels._C/csrc/op.cpp.obj", "kernels._C/csrc/sm90/gemm.cu.obj"),
        *(f"/LIBPATH:{path}" for path in (f"{torch}/lib", f"{cuda}/lib/x64", "C:/Python311/libs")),
        *(
            f"{n}.lib"
            for n in ("torch_python", "torch_cuda", "c10_cuda", "torch_cpu", "torch", "c10", "cudart")
        ),
        "/INCLUDE:?warp_size@cuda@at@@YAHXZ",
    )
    assert made.links == {}


def test_each_source_for_its_own_architectures(tmp_path: Path) -> None:
    own = {"sm90/*.cu": parse_architectures("9.0a")}
    both = Extension(name="k", sources=("sm90/a.cu", "b.cu"), source_architectures=own)
    made = plan(tmp_path, both, config={"arch": "9.0;12.0+PTX"})
    assert [option(command, "-gencode") for command in commands(made)] == [
        ["-gencode=arch=compute_90a,code=sm_90a"],
        [
            "-gencode=arch=compute_90,code=sm_90",
            "-gencode=arch=compute_120,code=sm_120",
            "-gencode=arch=compute_120,code=compute_120",
        ],
        [],
    ]
    assert made.local_version == "cu130.sm90.sm90a.sm120.ptx120.torch2.14"


def test_every_architecture_is_compiled_by_itself(tmp_path: Path) -> None:
    """Machine code made from an older architecture's PTX lacks the newer one's instructions."""
    made = plan(tmp_path, Extension(name="k", sources=("k.cu",)), config={"arch": "8.0;9.0;12.0"})
    assert option(commands(made)[0], "-gencode") == [
        f"-gencode=arch=compute_{number},code=sm_{number}" for number in (80, 90, 120)
    ]


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        ("9.0;12.0", ["-gencode=arch=compute_90,code=[sm_90,sm_120]"]),
        ("12.0", ["-gencode=arch=compute_120,code=sm_120"]),
        (
            "8.0;9.0+PTX;9.0a",
            [
                "-gencode=arch=compute_80,code=[sm_80,sm_90]",
                "-gencode=arch=compute_90,code=compute_90",
                "-gencode=arch=compute_90a,code=sm_90a",
            ],
        ),
    ],
)
def test_one_front_end_pass_where_it_is_asked_for(tmp_path: Path, arch: str, expected: list[str]) -> None:
    made = plan(tmp_path, Extension(name="k", sources=("k.cu",), front_end="shared"), config={"arch": arch})
    assert option(commands(made)[0], "-gencode") == expected


def test_without_a_target_the_architectures_are_pytorchs_as_far_as_the_toolkit_compiles_them(
    tmp_path: Path,
) -> None:
    extension = Extension(name="k", sources=("k.cu",))
    made = plan(tmp_path, extension, torch_architectures="5.0;7.5;9.0;12.0+PTX")
    assert str(made.architectures) == "7.5;9.0;12.0+PTX"


def test_the_projects_own_architecture_flags_count_while_nobody_asks_for_a_target(tmp_path: Path) -> None:
    flags = {
        Language.CUDA: ("-gencode", "arch=compute_80,code=sm_80", "-DSEARCH", "--arch-like", "-arch=sm_90")
    }
    extension = Extension(name="k", sources=("k.cu",), flags=flags, origin="setup.py")
    made = plan(tmp_path, extension)
    assert str(made.architectures) == "8.0;9.0+PTX"
    assert option(commands(made)[0], "-gencode") == ["-gencode=arch=compute_80,code=sm_80"]
    assert {"-DSEARCH", "--arch-like", "-arch=sm_90"} <= set(shlex.split(commands(made)[0]))


@pytest.mark.parametrize(
    ("flags", "request_", "expected", "ids"),
    [
        # A plain form is replaced by the target's own.
        ("arch=compute_80,code=sm_80", {"target": "rtx5070"}, ["120:120"], ["architecture-flags-overruled"]),
        # Kernels are written for the instructions of a form with a or f that runs on the target.
        ("arch=compute_90a,code=sm_90a", {"target": "h100"}, ["90a:90a"], []),
        ("arch=compute_90a,code=sm_90a", {"arch": "9.0+PTX"}, ["90a:90a", "90a:compute_90a"], []),
        ("arch=compute_120f,code=sm_120f", {"arch": "12.1"}, ["120f:120f"], []),
        (
            "arch=compute_80,code=sm_80;arch=compute_90a,code=sm_90a",
            {"target": "h100"},
            ["90a:90a"],
            ["architecture-flags-overruled"],
        ),
        (
            "arch=compute_90,code=sm_90;arch=compute_90a,code=sm_90a",
            {"target": "h100"},
            ["90:90", "90a:90a"],
            [],
        ),
        (
            "arch=compute_80,code=sm_80;arch=compute_90a,code=sm_90a",
            {"target": "a100"},
            ["80:80"],
            ["architecture-flags-overruled"],
        ),
        (
            "arch=compute_80,code=sm_80;arch=compute_90a,code=sm_90a",
            {"target": "rtx5070", "flag-architectures": "merge"},
            ["80:80", "90a:90a", "120:120"],
            [],
        ),
        (
            "arch=compute_90a,code=sm_90a",
            {"target": "rtx5070", "flag-architectures": "merge"},
            ["90a:90a", "120:120"],
            [],
        ),
        # What is requested anyway is compiled by the project's own flags.
        ("arch=compute_80,code=sm_86", {"arch": "8.6"}, ["80:86"], []),
        ("arch=compute_80,code=sm_86", {}, ["80:86"], []),
    ],
)
def test_a_target_beside_the_projects_architecture_flags(
    tmp_path: Path, flags: str, request_: dict[str, str], expected: list[str], ids: list[str]
) -> None:
    own = tuple(word for pair in flags.split(";") for word in ("-gencode", pair))
    extension = Extension(name="k", sources=("k.cu",), flags={Language.CUDA: own}, origin="setup.py")
    made = plan(tmp_path, extension, config=request_)
    assert [finding.id for finding in made.findings] == ids
    options = option(commands(made)[0], "-gencode")
    assert [one.replace("-gencode=arch=compute_", "").replace(",code=sm_", ":").replace(",code=", ":")
            for one in options] == expected  # fmt: skip


@pytest.mark.parametrize("arch", ["12.0", "9.0;12.0"])
def test_a_form_that_does_not_serve_the_target_is_an_error(tmp_path: Path, arch: str) -> None:
    flags = {Language.CUDA: ("-gencode=arch=compute_90a,code=sm_90a",)}
    extension = Extension(name="k", sources=("k.cu",), flags=flags, origin="setup.py, extension k")
    made = plan(tmp_path, extension, config={"arch": arch})
    assert [finding.id for finding in errors(made)] == ["architecture-flags-miss-target"]


def test_an_extension_for_other_gpus_is_compiled_for_them_beside_one_for_the_target(tmp_path: Path) -> None:
    """Such as torchao's, which loads each on its own GPU."""
    flags = {Language.CUDA: ("-gencode=arch=compute_90a,code=sm_90a",)}
    own = Extension(name="k90", sources=("k.cu",), flags=flags, origin="setup.py, extension k90")
    other = Extension(name="k", sources=("other.cu",), origin="setup.py, extension k")
    made = plan(tmp_path, own, other, config={"target": "rtx5070"})
    assert [option(command, "-gencode") for command in commands(made) if "nvcc" in command] == [
        ["-gencode=arch=compute_90a,code=sm_90a"],
        ["-gencode=arch=compute_120,code=sm_120"],
    ]
    assert [finding.id for finding in made.findings] == ["architecture-flags-miss-target"]
    assert str(made.architectures) == "9.0a;12.0"


def test_a_variable_does_not_overrule_the_projects_architecture_flags(tmp_path: Path) -> None:
    """torch.utils.cpp_extension reads TORCH_CUDA_ARCH_LIST only where no flag says what to compile for."""
    flags = {Language.CUDA: ("-gencode", "arch=compute_90a,code=sm_90a")}
    extension = Extension(name="k", sources=("k.cu",), flags=flags, origin="setup.py, extension k")
    made = plan(tmp_path, extension, environment={"TORCH_CUDA_ARCH_LIST": "12.0"})
    assert option(commands(made)[0], "-gencode") == ["-gencode=arch=compute_90a,code=sm_90a"]
    assert [finding.id for finding in made.findings] == ["architecture-variable-overruled"]
    named = plan(
        tmp_path, extension, environment={"TORCHWHEEL_TARGET": "h200", "TORCH_CUDA_ARCH_LIST": "8.0"}
    )
    assert str(named.architectures) == "9.0a"


@pytest.mark.parametrize("name", ["CUDAFLAGS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"])
def test_architectures_in_a_variable_of_nvccs_are_an_error(tmp_path: Path, name: str) -> None:
    """nvcc would compile for them besides, and the wheel would fail its proof."""
    given = {name: "-ccbin=g++ -gencode arch=compute_80,code=sm_80"}
    made = plan(tmp_path, KERNELS, config={"target": "rtx5070"}, environment=given)
    assert [finding.problem for finding in errors(made)] == [
        Problem.of(
            "variables-add-architectures/extension",
            origin=f"variable {name}",
            name=name,
            flags="-gencode arch=compute_80,code=sm_80",
        )
    ]
    without = {name: "-ccbin=g++"}
    assert errors(plan(tmp_path, KERNELS, config={"target": "rtx5070"}, environment=without)) == []
    assert errors(plan(tmp_path, Extension(name="k", sources=("a.cpp",)), environment=given)) == []


@pytest.mark.parametrize(
    ("build_type", "cpp", "cu"),
    [
        ("Release", ["-O3", "-DNDEBUG"], ["-O3"]),
        ("RelWithDebInfo", ["-O3", "-g", "-DNDEBUG"], ["-O3", "-lineinfo", "-g"]),
        ("Debug", ["-O0", "-g"], ["-O0", "-g", "-G"]),
    ],
)
def test_debug_and_line_information_come_with_the_build_type(
    tmp_path: Path, build_type: str, cpp: list[str], cu: list[str]
) -> None:
    extension = Extension(name="k", sources=("a.cpp", "k.cu"))
    made = plan(tmp_path, extension, config={"target": "rtx5070", "build-type": build_type})
    labels = {"Release": ""}.get(build_type, f".{build_type.lower()}")
    assert made.local_version == record_of(made).local_version == f"cu130.sm120.torch2.14{labels}"
    words = [shlex.split(command) for command in commands(made)]
    assert words[0][1 : 1 + len(cpp)] == cpp
    assert words[1][2 : 2 + len(cu)] == cu
    assert ("-g" in words[2]) == ("-g" in cpp)


def test_a_flag_of_the_project_replaces_its_counterpart(tmp_path: Path) -> None:
    flags = {Language.CXX: ("-O1", "-std=c++23"), Language.CUDA: ("-O2", "--std=c++20")}
    extension = Extension(name="k", sources=("a.cpp", "k.cu"), flags=flags)
    cpp, cu, _ = commands(plan(tmp_path, extension, config={"target": "rtx5070"}))
    assert (option(cpp, "-O"), option(cpp, "-std")) == (["-O1"], ["-std=c++23"])
    assert (option(cu, "-O"), option(cu, "-std"), option(cu, "--std")) == (["-O2"], [], ["--std=c++20"])


@pytest.mark.parametrize(
    ("given", "standard", "expected", "ids"),
    [
        (("-std=c++17",), 20, ("-std=c++20",), ["cxx-standard-raised"]),
        (("-std", "c++17"), 20, ("-std", "c++20"), ["cxx-standard-raised"]),
        (("--std=gnu++1z",), 20, ("--std=gnu++20",), ["cxx-standard-raised"]),
        (("-std=c++2a",), 20, ("-std=c++2a",), []),
        (("-std=c++17",), 17, ("-std=c++17",), []),
        (("-std=c++98",), 17, ("-std=c++17",), ["cxx-standard-raised"]),
    ],
)
def test_a_standard_older_than_pytorchs_is_raised(
    tmp_path: Path, given: tuple[str, ...], standard: int, expected: tuple[str, ...], ids: list[str]
) -> None:
    extension = Extension(name="k", sources=("a.cpp",), flags={Language.CXX: given})
    made = plan(tmp_path, extension, torch=installed(cxx_standard=standard))
    assert made.extensions[0].extension.flags[Language.CXX] == expected
    assert [finding.id for finding in made.findings] == ids


def test_what_extensions_share_is_said_once(tmp_path: Path) -> None:
    flags = {"a": "-std=c++17", "b": "-std=c++17", "c": "-std=c++14"}
    extensions = [
        Extension(
            name=name, sources=("a.cpp",), flags={Language.CXX: (flag,)}, origin=f"setup.py, extension {name}"
        )
        for name, flag in flags.items()
    ]
    values = {"standard": "20", "torch": "2.14.1+cu130"}
    assert [finding.problem for finding in plan(tmp_path, *extensions).findings] == [
        Problem.of("cxx-standard-raised", origin="setup.py", extension="a, b", flags="-std=c++17", **values),
        Problem.of(
            "cxx-standard-raised", origin="setup.py, extension c", extension="c", flags="-std=c++14", **values
        ),
    ]


def test_the_stable_abis_headers_take_older_standards(tmp_path: Path) -> None:
    flags = {Language.CXX: ("-std=c++17",)}
    made = plan(tmp_path, Extension(name="k", sources=("a.cpp",), flags=flags, stable_abi="2.10"))
    assert option(commands(made)[0], "-std") == ["-std=c++17"]


def test_flags_of_the_users_environment_come_last(tmp_path: Path) -> None:
    flags = {
        "CFLAGS": "-march=native",
        "CXXFLAGS": "'-DA=b c'",
        "LDFLAGS": "-Wl,-z,now",
        "CUDAFLAGS": "-lineinfo",
    }
    extension = Extension(name="k", sources=("a.cpp", "k.cu"), flags={Language.CXX: ("-DMINE",)})
    made = plan(tmp_path, extension, config={"target": "rtx5070"}, environment=flags)
    cpp, cu, link = (shlex.split(command) for command in commands(made))
    assert cpp[cpp.index("-DMINE") :][:3] == ["-DMINE", "-march=native", "-DA=b c"]
    assert cu[cu.index("-MMD") - 1] == "-lineinfo"
    assert link[-1] == "-Wl,-z,now"


def test_relocatable_device_code_is_linked_in_a_step_of_its_own(tmp_path: Path) -> None:
    extension = Extension(
        name="k",
        sources=("a.cu", "b.cu"),
        flags={Language.CUDA: ("-rdc=true",)},
        device_link=True,
        device_link_libraries=("nvshmem_device",),
    )
    steps = commands(plan(tmp_path, extension, config={"arch": "9.0;12.0"}))
    assert steps[2] == (
        "toolkit/bin/nvcc -ccbin=/usr/bin/c++ -dlink -gencode=arch=compute_90,code=sm_90 "
        "-gencode=arch=compute_120,code=sm_120 -Xcompiler=-fPIC k-module/a.cu.o k-module/b.cu.o -Ltorch/lib "
        "-Ltoolkit/lib64 -lnvshmem_device -o k-module/device-link.o"
    )
    assert shlex.split(steps[3])[4:7] == ["k-module/a.cu.o", "k-module/b.cu.o", "k-module/device-link.o"]


def test_the_stable_abi_brings_its_macro_the_limited_api_and_the_abi3_suffix(tmp_path: Path) -> None:
    extension = Extension(name="pkg._C", sources=("a.cpp", "k.cu"), stable_abi="2.10")
    made = plan(tmp_path, extension, config={"target": "rtx5070"})
    for command in commands(made)[:2]:
        assert option(command, "-D")[-5:] == [
            "-DTORCH_TARGET_VERSION=0x020a000000000000",
            "-DUSE_CUDA",
            "-DTORCH_EXTENSION_NAME=_C",
            "-DTORCH_API_INCLUDE_EXTENSION_H",
            "-DPy_LIMITED_API=0x030A0000",
        ]
    assert option(commands(made)[2], "-l") == [
        *("-ltorch_cuda", "-lc10_cuda", "-ltorch_cpu", "-ltorch", "-lc10"),
        *("-lcudart_static", "-ldl", "-lrt", "-lpthread"),
    ]
    assert (made.extensions[0].file_name, made.local_version, made.requires) == (
        "pkg/_C.abi3.so",
        "cu130.sm120",
        ("torch>=2.10",),
    )


def test_without_cuda_nothing_of_cuda_is_there(tmp_path: Path) -> None:
    made = plan(tmp_path, Extension(name="k", sources=("a.cpp",)), torch=cpu_torch(), toolkit=None)
    assert (made.local_version, made.architectures, made.inputs.toolkit) == ("cpu.torch2.14", None, None)
    assert "cuda" not in " ".join(commands(made))


def test_the_old_cxx_abi_of_a_pytorch_is_kept(tmp_path: Path) -> None:
    torch = installed("2.5.1", cxx11_abi=False, cxx_standard=17)
    made = plan(tmp_path, Extension(name="k", sources=("a.cpp",)), torch=torch)
    assert "-D_GLIBCXX_USE_CXX11_ABI=0" in shlex.split(commands(made)[0])


def test_pybind11_finds_that_of_an_older_pytorch(tmp_path: Path) -> None:
    macros = (("PYBIND11_COMPILER_TYPE", '"_gcc"'), ("PYBIND11_STDLIB", '"_libstdcpp"'))
    plain, limited = (
        Extension(name="k", sources=("a.cpp",)),
        Extension(name="l", sources=("a.cpp",), limited_api=True),
    )
    made = plan(tmp_path, plain, limited, torch=installed("2.8.0", pybind11_macros=macros))
    assert option(commands(made)[0], "-DPYBIND") == [
        '-DPYBIND11_COMPILER_TYPE="_gcc"',
        '-DPYBIND11_STDLIB="_libstdcpp"',
    ]
    assert option(commands(made)[2], "-DPYBIND") == []


def test_objects_of_files_with_one_name_do_not_meet(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=("a/x.cpp", "b/x.cpp", "../c/x.cpp", "/opt/lib/x.cpp", "x.c"))
    made = plan(tmp_path, extension)
    assert [step.output for step in made.extensions[0].steps[:-1]] == [
        "k-module/a/x.cpp.o",
        "k-module/b/x.cpp.o",
        "k-module/up/c/x.cpp.o",
        "k-module/opt/lib/x.cpp.o",
        "k-module/x.c.o",
    ]


def test_unity_files_are_as_many_as_the_square_root_of_their_sources(tmp_path: Path) -> None:
    sources = ("a.cpp", "sub/b.cpp", "c.cpp", "d.cpp", "x.cu", "y.cu", "z.c", "w.c")
    extension = Extension(name="pkg._C", sources=sources, unity=True)
    made = plan(tmp_path, extension, config={"target": "rtx5070"})
    assert made.generated == {
        "pkg._C/unity-0.cpp": '#include "../source/a.cpp"\n#include "../source/c.cpp"\n',
        "pkg._C/unity-1.cpp": '#include "../source/sub/b.cpp"\n#include "../source/d.cpp"\n',
        "pkg._C/unity-2.cu": '#include "../source/x.cu"\n#include "../source/y.cu"\n',
    }
    assert [step.sources for step in made.extensions[0].steps[:-1]] == [
        *(("z.c",), ("w.c",)),
        *(("a.cpp", "c.cpp"), ("sub/b.cpp", "d.cpp"), ("x.cu", "y.cu")),
    ]


@pytest.mark.parametrize(("files", "threads"), [(1, ["--threads=4"]), (2, ["--threads=2"]), (8, [])])
def test_nvcc_works_on_architectures_at_once_where_there_are_few_files(
    tmp_path: Path, files: int, threads: list[str]
) -> None:
    extension = Extension(name="k", sources=tuple(f"{n}.cu" for n in range(files)))
    made = plan(tmp_path, extension, config={"arch": "8.0;8.6;9.0;10.0;12.0"})
    assert option(commands(made)[0], "--threads") == threads


@pytest.mark.parametrize("own", [("--threads=1",), ("--threads", "1"), ("-t=0",), ("-t", "0")])
def test_nvcc_threads_that_the_project_chooses(tmp_path: Path, own: tuple[str, ...]) -> None:
    extension = Extension(name="k", sources=("k.cu",), flags={Language.CUDA: own})
    command = commands(plan(tmp_path, extension, config={"arch": "9.0;12.0"}))[0]
    assert option(command, "--threads=2") == []
    assert set(own) <= set(shlex.split(command))


def test_other_jobs_change_no_command_and_no_file(tmp_path: Path) -> None:
    """What they changed would be compiled again, and a compiler cache of another machine would not know it."""
    sources = ("a.cpp", "b.cpp", "c.cpp", "d.cpp", "x.cu", "y.cu")
    for unity in (False, True):
        for count in (1, len(sources)):
            extension = Extension(name="k", sources=sources[-count:], unity=unity)
            one, many = (
                plan(tmp_path, extension, config={"arch": "8.0;9.0;12.0", "jobs": jobs})
                for jobs in ("1", "16")
            )
            assert (one.jobs.max_jobs, many.jobs.max_jobs) == (1, 16)
            assert (one.extensions, one.generated, one.folder) == (
                many.extensions,
                many.generated,
                many.folder,
            )


def _folder(tmp_path: Path, **keywords: Any) -> str:
    return plan(tmp_path, Extension(name="k", sources=("k.cu",)), **keywords).folder.name


def test_the_build_folder_belongs_to_project_tools_and_architectures(tmp_path: Path) -> None:
    plain = _folder(tmp_path, config={"target": "rtx5070"})
    assert plain.startswith("my project-")
    assert _folder(tmp_path, config={"target": "rtx5070", "jobs": "3"}) == plain
    others = {
        _folder(tmp_path, config={"target": "a100"}),
        _folder(tmp_path, config={"target": "rtx5070", "build-type": "Debug"}),
        _folder(tmp_path, config={"target": "rtx5070"}, project="/elsewhere/my project"),
        _folder(tmp_path, config={"target": "rtx5070"}, torch=installed("2.15.0")),
        _folder(tmp_path, config={"target": "rtx5070"}, host=WINDOWS, python=WINDOWS_PYTHON),
    }
    assert len(others) == 5
    assert plain not in others


def _changed(host: Host, **python: str) -> Host:
    return replace(host, python=replace(host.python, **python))


def _with_compiler(language: str) -> Host:
    compilers = tuple(
        replace(compiler, identity="other:2:2") if compiler.language == language else compiler
        for compiler in LINUX.compilers
    )
    return replace(LINUX, compilers=compilers)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"host": _with_compiler("c")}, id="C compiler"),
        pytest.param({"host": _with_compiler("cxx")}, id="C++ compiler"),
        pytest.param({"host": _changed(LINUX, interpreter_tag="cp312")}, id="Python"),
        pytest.param({"host": _changed(LINUX, abi_tag="cp311d")}, id="ABI of Python"),
        pytest.param({"toolkit": replace(CUDA_13, identity="nvcc:2:2")}, id="toolkit"),
        pytest.param({"torch": installed(identity="2.14.1+cu130, built again")}, id="PyTorch"),
        pytest.param({"config": {"target": "a100"}}, id="architectures"),
        pytest.param({"config": {"target": "rtx5070", "build-type": "Debug"}}, id="build type"),
    ],
)
def test_other_tools_are_another_identity(tmp_path: Path, changed: dict[str, Any]) -> None:
    """What was compiled with others must neither be taken over nor be undone."""
    extension = Extension(name="k", sources=("k.cu",))
    asked = {"config": {"target": "rtx5070"}}
    one, other = plan(tmp_path, extension, **asked), plan(tmp_path, extension, **{**asked, **changed})
    assert one.identity != other.identity
    assert one.folder != other.folder
    assert one.identity == plan(tmp_path, extension, **asked, project="/elsewhere").identity


def test_free_threaded_python_has_a_module_of_its_own(tmp_path: Path) -> None:
    """It has no limited API, and takes no wheel tagged abi3."""
    stable = Extension(name="k._C", sources=("k.cpp",), stable_abi="2.10", cuda=False)
    host = _changed(LINUX, interpreter_tag="cp313", abi_tag="cp313t")
    python = replace(PYTHON, extension_suffix=".cpython-313t-x86_64-linux-gnu.so")
    made = plan(tmp_path, stable, host=host, python=python)
    (planned,) = made.extensions
    assert planned.file_name == "k/_C.cpython-313t-x86_64-linux-gnu.so"
    assert "-DPy_LIMITED_API=0x030A0000" not in planned.steps[0].command
    assert "-ltorch_python" not in planned.steps[-1].command
    assert made.requires == ("torch>=2.10",)
    assert [(f.severity.value, f.id) for f in made.findings] == [("note", "no-limited-api-here")]
    labels = expected_wheel(record_of(made), name="k", version="1", python=host.python).labels
    assert (labels.python_tag, labels.abi_tag) == ("cp313", "cp313t")


def test_architectures_of_sources_in_any_folder_below(tmp_path: Path) -> None:
    own = {"csrc/**/sm90_*.cu": parse_architectures("9.0a")}
    sources = ("csrc/sm90_a.cu", "csrc/deep/er/sm90_b.cu", "csrc/deep/c.cu")
    extension = Extension(name="k", sources=sources, source_architectures=own)
    made = plan(tmp_path, extension, config={"target": "a100"})
    architectures = [str(step.architectures) for step in made.extensions[0].steps[:-1]]
    assert architectures == ["9.0a", "9.0a", "8.0"]


def test_the_projects_flags_come_before_its_targets(tmp_path: Path) -> None:
    flags = {Language.CUDA: ("-gencode=arch=compute_80,code=sm_80",)}
    extension = Extension(
        name="k", sources=("k.cu",), flags=flags, default_architectures=parse_architectures("9.0")
    )
    assert str(plan(tmp_path, extension).architectures) == "8.0"
    assert str(plan(tmp_path, replace(extension, flags={})).architectures) == "9.0"


@pytest.mark.parametrize(("asked", "label"), [("mine.1", "mine.1"), ("", "")])
def test_the_local_version_that_is_asked_for(tmp_path: Path, asked: str, label: str) -> None:
    made = plan(tmp_path, KERNELS, config={"target": "rtx5070", "local-version": asked})
    assert (made.local_version, record_of(made).local_version) == (label, label)


def test_libraries_of_device_code_are_linked_in_a_step_of_their_own(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=("k.cu",), device_link_libraries=("nvshmem_device",))
    steps = plan(tmp_path, extension, config={"target": "rtx5070"}).extensions[0].steps
    assert [step.output for step in steps] == [
        "k-module/k.cu.o",
        "k-module/device-link.o",
        "k-module/k.cpython-311-x86_64-linux-gnu.so",
    ]
    assert steps[1].command[-3:] == ("-lnvshmem_device", "-o", "k-module/device-link.o")


def test_findings_stand_errors_first(tmp_path: Path) -> None:
    given = (
        note(Problem("n", "n", "none")),
        warning(Problem("w", "w", "none")),
        error(Problem("wheel-tag", "e", "none")),
    )
    config = {"target": "rtx5070", "skip-check": "wheel-tag"}
    made = plan(tmp_path, KERNELS, config=config, toolkit_findings=given)
    assert [finding.id for finding in made.findings] == ["wheel-tag", "w", "n"]


def test_jobs_count_what_nvcc_takes(tmp_path: Path) -> None:
    plain = Extension(name="k", sources=("a.cpp",))
    small = replace(LINUX, memory_bytes=16 * GIB)
    counts = [
        plan(tmp_path, one, config={"target": "rtx5070"}, host=small).jobs.max_jobs
        for one in (plain, KERNELS)
    ]
    assert counts[1] < counts[0]


def test_objects_of_absolute_paths_on_windows(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=(r"D:\libs\x.cpp",))
    made = plan(
        tmp_path,
        extension,
        host=WINDOWS,
        python=WINDOWS_PYTHON,
        toolkit=None,
        torch=cpu_torch(),
        project=r"C:\p",
    )
    # The machine that tests this has no drives; a colon may stand in no file name there.
    assert ":" not in made.extensions[0].steps[0].output


@pytest.mark.parametrize(
    ("compiler", "linker"),
    [
        (r"C:\VS 2022\bin\Hostx64\x64\cl.EXE", r"C:\VS 2022\bin\Hostx64\x64\link.exe"),
        ("C:/VS/bin/cl.exe", r"C:\VS\bin\link.exe"),
        ("cl", "link.exe"),
    ],
)
def test_the_linker_is_the_one_beside_cl(tmp_path: Path, compiler: str, linker: str) -> None:
    """PATHEXT has its endings in capitals, and so has what shutil.which finds by them."""
    host = replace(WINDOWS, compilers=tuple(replace(one, path=compiler) for one in WINDOWS.compilers))
    asked: dict[str, Any] = {
        "python": WINDOWS_PYTHON,
        "toolkit": None,
        "torch": cpu_torch(),
        "project": r"C:\p",
    }
    made = plan(tmp_path, Extension(name="k", sources=("k.cpp",)), host=host, **asked)
    assert [step.command[0] for step in made.extensions[0].steps] == [compiler, linker]


@pytest.mark.parametrize("stable_abi", [None, "2.10"])
def test_windows_headers_are_told_of_a_free_threaded_python(tmp_path: Path, stable_abi: str | None) -> None:
    """They are those of the other Python too, and name its import library."""
    extension = Extension(name="k", sources=("a.c", "a.cpp", "k.cu"), stable_abi=stable_abi)
    asked: dict[str, Any] = {
        "python": WINDOWS_PYTHON,
        "toolkit": WINDOWS_CUDA_13,
        "project": r"C:\p",
        "config": {"target": "rtx5070"},
    }

    def told(host: Host, **changes: Any) -> list[list[str]]:
        made = plan(tmp_path, extension, host=host, **{**asked, **changes})
        found = [[w for w in step.command if "Py_GIL_DISABLED" in w] for step in made.extensions[0].steps]
        assert len(found) == 4
        return found

    def free(host: Host) -> Host:
        return replace(host, python=replace(host.python, abi_tag="cp314t"))

    assert told(free(WINDOWS)) == [
        ["/DPy_GIL_DISABLED=1"],
        ["/DPy_GIL_DISABLED=1"],
        ["-DPy_GIL_DISABLED=1"],
        [],
    ]
    assert told(WINDOWS) == [[], [], [], []]
    linux = {"python": PYTHON, "toolkit": CUDA_13, "project": "/p"}
    assert told(free(LINUX), **linux) == [[], [], [], []]


def test_flags_of_windows_keep_their_backslashes(tmp_path: Path) -> None:
    environment = {"CXXFLAGS": '/IC:\\lib\\include /DNAME="a b" "/IC:\\My Folder"'}
    asked: dict[str, Any] = {
        "python": WINDOWS_PYTHON,
        "toolkit": None,
        "torch": cpu_torch(),
        "project": r"C:\p",
    }
    extension = Extension(name="k", sources=("k.cpp",))
    compiled, _ = (
        plan(tmp_path, extension, host=WINDOWS, environment=environment, **asked).extensions[0].steps
    )
    assert compiled.command[-7:-4] == ("/IC:\\lib\\include", "/DNAME=a b", "/IC:\\My Folder")


def test_a_stable_module_for_windows_keeps_no_symbol_of_pytorch(tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "host": WINDOWS,
        "python": WINDOWS_PYTHON,
        "toolkit": WINDOWS_CUDA_13,
        "project": r"C:\p",
        "config": {"target": "rtx5070"},
    }
    keep = "/INCLUDE:?warp_size@cuda@at@@YAHXZ"
    extension = Extension(name="k", sources=("k.cu",))
    assert keep in plan(tmp_path, extension, **asked).extensions[0].steps[-1].command
    stable = replace(extension, stable_abi="2.10")
    assert keep not in plan(tmp_path, stable, **asked).extensions[0].steps[-1].command


def test_what_cxx_says_beside_the_compiler_reaches_every_command(tmp_path: Path) -> None:
    cxx = replace(LINUX.compilers[1], arguments=("--sysroot=/opt/root",))
    host = replace(LINUX, compilers=(LINUX.compilers[0], cxx))
    extension = Extension(name="k", sources=("a.c", "a.cpp", "k.cu"))
    c, cpp, cuda, link = commands(plan(tmp_path, extension, host=host, config={"target": "rtx5070"}))
    assert c.startswith("/usr/bin/cc ")
    assert "--sysroot" not in c
    assert cpp.startswith("/usr/bin/c++ --sysroot=/opt/root ")
    assert "-Xcompiler=--sysroot=/opt/root" in shlex.split(cuda)
    assert link.startswith("/usr/bin/c++ --sysroot=/opt/root ")


def test_nvcc_has_the_host_compiler_of_cc(tmp_path: Path) -> None:
    c = replace(LINUX.compilers[0], path="/usr/bin/gcc-12", arguments=("-m64",))
    made = plan(tmp_path, KERNELS, config={"target": "rtx5070"}, cuda_host=c)
    cpp, cuda, link = commands(made)
    assert cpp.startswith("/usr/bin/c++ ")
    assert option(cuda, "-ccbin") == ["-ccbin=/usr/bin/gcc-12"]
    assert "-Xcompiler=-m64" in shlex.split(cuda)
    assert link.startswith("/usr/bin/c++ ")


def test_folders_in_the_flags_that_python_was_built_with(tmp_path: Path) -> None:
    """conda's Python finds its environment's headers and libraries so; only what links libraries needs the latter."""
    python = replace(
        PYTHON,
        cxx_include_dirs=("/conda/include",),
        own_library_dirs=("/conda/lib",),
        own_run_path=("/conda/lib",),
    )
    made = plan(tmp_path, KERNELS, config={"target": "rtx5070"}, python=python)
    cpp, cuda, link = commands(made)
    assert cpp.partition(" -MMD")[0].endswith("-isystem /usr/include/python3.11 -isystem /conda/include")
    assert "/conda" not in cuda + link
    for own in (replace(KERNELS, libraries=("blas",)), replace(KERNELS, link_flags=("-lblas",))):
        made = plan(tmp_path, own, config={"target": "rtx5070"}, python=python)
        words = shlex.split(commands(made)[-1])
        assert [word for word in words if "/conda" in word] == ["-L/conda/lib", "-Wl,-rpath,/conda/lib"]


def test_headers_of_the_system_are_left_to_the_compiler(tmp_path: Path) -> None:
    """GCC's #include_next fails where /usr/include is named: Debian's CUDA has its headers there."""
    toolkit = replace(CUDA_13, include_dirs=("/usr/include",))
    made = plan(tmp_path, KERNELS, config={"target": "rtx5070"}, toolkit=toolkit)
    assert not any("/usr/include" in shlex.split(command) for command in commands(made))


def test_libraries_that_a_pytorch_lacks_are_not_linked(tmp_path: Path) -> None:
    torch = installed(libraries=frozenset({"c10", "torch", "torch_cpu", "torch_python", "torch_cuda"}))
    made = plan(tmp_path, KERNELS, config={"target": "rtx5070"}, torch=torch)
    linked = option(commands(made)[-1], "-l")
    assert linked == ["-ltorch_python", "-ltorch_cuda", "-ltorch_cpu", "-ltorch", "-lc10", "-lcudart"]


def test_a_module_for_macos(tmp_path: Path) -> None:
    host = replace(LINUX, system="Darwin")
    made = plan(
        tmp_path, Extension(name="p.k", sources=("a.cpp",)), host=host, toolkit=None, torch=cpu_torch()
    )
    words = shlex.split(commands(made)[-1])
    assert words[1:4] == ["-bundle", "-undefined", "dynamic_lookup"]
    assert words[-1] == "-Wl,-rpath,@loader_path/../torch/lib"
    assert "-Wl,--push-state,--as-needed" not in words


def test_what_every_source_depends_on(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=("a.cpp",), depends=("table.inc",))
    assert plan(tmp_path, extension).extensions[0].steps[0].inputs == ("source/a.cpp", "source/table.inc")


def test_cuda_belongs_to_a_module_that_asks_for_it(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=("a.cpp",), cuda=True)
    compiling, link = commands(plan(tmp_path, extension))
    assert "toolkit/include" in shlex.split(compiling)
    assert "-lcudart" in shlex.split(link)


def test_a_reproducible_module_holds_names_in_place_of_paths(tmp_path: Path) -> None:
    plain = plan(tmp_path, KERNELS, config={"target": "rtx5070"})
    made = plan(
        tmp_path, KERNELS, config={"target": "rtx5070"}, environment={"SOURCE_DATE_EPOCH": "1700000000"}
    )
    maps = [
        "-ffile-prefix-map=source=/source",
        "-ffile-prefix-map=torch=/torch",
        "-ffile-prefix-map=toolkit=/toolkit",
    ]
    named = ["-objtemp", "-Xcudafe=--orig_src_path_name=/kernels._C/csrc/sm90/gemm.cu"]
    added = [
        [word for word in shlex.split(new) if word not in shlex.split(old)]
        for new, old in zip(commands(made), commands(plain), strict=True)
    ]
    assert added == [maps, [*(f"-Xcompiler={one}" for one in maps), *named], []]
    cl = {
        "host": WINDOWS,
        "python": WINDOWS_PYTHON,
        "toolkit": WINDOWS_CUDA_13,
        "config": {"target": "rtx5070"},
    }
    stated = plan(tmp_path, KERNELS, environment={"SOURCE_DATE_EPOCH": "1700000000"}, **cl)
    assert commands(stated) == commands(plan(tmp_path, KERNELS, **cl))
