from __future__ import annotations

from collections.abc import Mapping

import pytest

from settings.loading import Load, Refuse
from torchwheel.reporting.errors import Problem
from torchwheel.settings.pytorch_env import pytorch_variables, read_pytorch_env


def settings_of(environment: Mapping[str, str], **options: bool) -> dict[str, object]:
    problems: list[Problem] = []
    settings, _ = read_pytorch_env(environment, problems, **options)
    assert problems == []
    return {setting.key: setting.value for setting in settings}


# The list that PyTorch 2.14's cmake/EnvVarForwarding.cmake and 2.6's setup.py forward under their own names.
FORWARDED = (
    "UBSAN_FLAGS", "BLAS", "WITH_BLAS", "CUDA_HOST_COMPILER", "CUDA_NVCC_EXECUTABLE",
    "CUDA_SEPARABLE_COMPILATION", "CUDNN_LIBRARY", "CUDNN_INCLUDE_DIR", "CUDNN_ROOT",
    "EXPERIMENTAL_SINGLE_THREAD_POOL", "INSTALL_TEST", "JAVA_HOME", "INTEL_MKL_DIR", "INTEL_OMP_DIR",
    "MKL_THREADING", "MKLDNN_CPU_RUNTIME", "MSVC_Z7_OVERRIDE", "CAFFE2_USE_MSVC_STATIC_RUNTIME",
    "Numa_INCLUDE_DIR", "Numa_LIBRARIES", "ONNX_ML", "ONNX_NAMESPACE", "ATEN_THREADING", "WERROR",
    "OPENSSL_ROOT_DIR", "STATIC_DISPATCH_BACKEND", "SELECTED_OP_LIST", "TORCH_XPU_ARCH_LIST", "TRACING_BASED",
    "PYTHON_LIB_REL_PATH",
)  # fmt: skip


@pytest.mark.parametrize("name", [*FORWARDED, "USE_NCCL", "BUILD_TEST", "CMAKE_CXX_FLAGS", "USE_ANYTHING"])
def test_forwarded_variables_become_defines(name: str) -> None:
    assert settings_of({name: "x y"}) == {f"define.{name}": "x y"}


@pytest.mark.parametrize(
    "name",
    [
        *("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CUDAHOSTCXX", "CUDACXX", "TORCH_NVCC_FLAGS"),
        *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CMAKE_GENERATOR", "CMAKE_PREFIX_PATH", "CCACHE_DIR"),
        *(
            "SCCACHE_BUCKET",
            "FLASH_ATTENTION_MAX_JOBS",
            "PYTORCH_EXTRA_INSTALL_REQUIREMENTS",
            "LD_LIBRARY_PATH",
        ),
        *("GENERIC_BLAS_LIBRARIES", "SOVERSION", "PYTORCH_VERSION"),
        *("CPATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS", "LD_RUN_PATH"),
        # CMake's find_package reads them (CMP0074, CMP0144), whatever the files of PyTorch say.
        *("OpenBLAS_ROOT", "OPENBLAS_ROOT", "MKL_ROOT", "MAGMA_ROOT", "pybind11_DIR", "CUDNN_DIR"),
    ],
)
def test_what_is_read_from_the_environment_stays_there(name: str) -> None:
    assert settings_of({name: "a:b"}) == {f"env.{name}": "a:b"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"CUDNN_LIB_DIR": "/x"}, {"define.CUDNN_LIBRARY": "/x"}),
        ({"USE_CUDA_STATIC_LINK": "1"}, {"define.CAFFE2_STATIC_LINK_CUDA": "1"}),
        ({"_GLIBCXX_USE_CXX11_ABI": "0"}, {"define.GLIBCXX_USE_CXX11_ABI": "0"}),
        ({"USE_CCACHE": "1"}, {"define.USE_CCACHE": "1"}),
        ({"MAX_JOBS": "4"}, {"jobs": 4}),
        ({"DEBUG": "1"}, {"build-type": "Debug"}),
        ({"DEBUG": "0", "REL_WITH_DEB_INFO": "on"}, {"build-type": "RelWithDebInfo"}),
        ({"DEBUG": "app:*"}, {}),
        ({"PYTORCH_BUILD_VERSION": "2.6.0", "PYTORCH_BUILD_NUMBER": "1"}, {"package-version": "2.6.0"}),
        (
            {"PYTORCH_BUILD_VERSION": "2.6.0+cu124.x"},
            {"package-version": "2.6.0", "local-version": "cu124.x"},
        ),
        ({"USE_NCCL": "", "MAX_JOBS": " "}, {}),
        ({"PATH": "/bin", "HOME": "/", "USER": "u", "USE": "x", "BUILDER": "y"}, {}),
        ({"USE_": "x"}, {}),
        ({"HAS_X_EXITCODE": "0"}, {"define.HAS_X_EXITCODE": "0"}),
        ({"HAS_X_EXITCODE__TRYRUN_OUTPUT": "y"}, {"define.HAS_X_EXITCODE__TRYRUN_OUTPUT": "y"}),
        ({"EXITCODE": "1", "EXITCODES": "2", "_EXITCODE__TRYRUN": "3"}, {}),
    ],
)
def test_what_variables_become(environment: dict[str, str], expected: dict[str, object]) -> None:
    assert settings_of(environment) == expected


def test_windows_gives_names_in_upper_case() -> None:
    environment = {"CUDATOOLKIT_ROOT": "C:\\CUDA", "NUMA_LIBRARIES": "x", "OPENBLAS": "y", "LIBUV_ROOT": "z"}
    environment |= {"EIGEN3_ROOT": "e", "PYBIND11_DIR": "p", "CUDNN_ROOT": "c"}
    assert settings_of(environment, windows=True) == {
        "cuda-path": "C:\\CUDA",
        "define.Numa_LIBRARIES": "x",
        "env.OpenBLAS": "y",
        "env.libuv_ROOT": "z",
        "env.EIGEN3_ROOT": "e",
        "env.PYBIND11_DIR": "p",
        "define.CUDNN_ROOT": "c",
    }
    # CMake's policy CMP0144 makes some of them count everywhere.
    everywhere = {"cuda-path": "C:\\CUDA", "env.EIGEN3_ROOT": "e", "define.CUDNN_ROOT": "c"}
    assert settings_of(environment, windows=False) == everywhere


def test_no_spelling_of_a_build_variable_passes_on_windows() -> None:
    for name in pytorch_variables().rules:
        for spelled in (name, name.upper()):
            assert pytorch_variables(windows=True).can_change_build(spelled)
    assert pytorch_variables(windows=True).can_change_build("Use_Cuda")
    assert pytorch_variables(windows=True).can_change_build("Build_Number")
    assert not pytorch_variables(windows=True).can_change_build("Path")
    assert not pytorch_variables(windows=False).can_change_build(
        "FLEXIBLAS"
    )  # FlexiBLAS's own, for programs that run


@pytest.mark.parametrize(
    ("environment", "key", "found"),
    [
        ({"CMAKE_BUILD_PARALLEL_LEVEL": "9", "MAX_JOBS": "4"}, "jobs", {"MAX_JOBS": 4}),
        (
            {"DEBUG": "1", "REL_WITH_DEB_INFO": "1", "CMAKE_BUILD_TYPE": "MinSizeRel"},
            "build-type",
            {"CMAKE_BUILD_TYPE": "MinSizeRel", "DEBUG": "Debug", "REL_WITH_DEB_INFO": "RelWithDebInfo"},
        ),
        (
            {"CUDA_PATH": "/b", "CUDAToolkit_ROOT": "/c", "CUDA_HOME": "/a", "CUDA_BIN_PATH": "/d"},
            "cuda-path",
            {"CUDA_HOME": "/a", "CUDA_PATH": "/b", "CUDAToolkit_ROOT": "/c", "CUDA_BIN_PATH": "/d"},
        ),
        (
            {"USE_NCCL": "1", "CMAKE_ARGS": "-DUSE_NCCL=OFF -DUSE_NCCL:BOOL=NO"},
            "define.USE_NCCL",
            {"USE_NCCL": "1", "CMAKE_ARGS -DUSE_NCCL": "NO"},
        ),
        ({"MAX_JOBS": "4", "TORCHWHEEL_JOBS": "2"}, "jobs", {"TORCHWHEEL_JOBS": 2, "MAX_JOBS": 4}),
    ],
)
def test_of_several_variables_the_first_wins_and_the_others_are_remembered(
    load: Load, environment: dict[str, str], key: str, found: dict[str, object]
) -> None:
    setting = load(environment=environment).entries[key]
    given = [(one.origin.removeprefix("variable "), one.value) for one in (setting, *setting.replaced)]
    assert given[: len(found)] == list(found.items())


def test_cmake_args_are_taken_apart(load: Load) -> None:
    arguments = (
        "-DUSE_GLOO=OFF -D BLAS:STRING=OpenBLAS '-DCMAKE_CXX_FLAGS=-O2 -g' -G Ninja -Wno-dev -DX=a=b;c"
    )
    settings = load(environment={"CMAKE_ARGS": arguments})
    assert dict(settings.define) == {
        "USE_GLOO": "OFF",
        "BLAS": "OpenBLAS",
        "CMAKE_CXX_FLAGS": "-O2 -g",
        "X": "a=b;c",
    }
    assert settings.cmake_args == ("-G", "Ninja", "-Wno-dev")


def test_the_install_prefix_that_conda_puts_into_cmake_args_is_dropped(load: Load) -> None:
    settings = load(
        environment={"CMAKE_ARGS": "-DCMAKE_INSTALL_PREFIX=/opt/conda -DCMAKE_AR=/opt/conda/bin/ar"}
    )
    assert dict(settings.define) == {"CMAKE_AR": "/opt/conda/bin/ar"}
    assert settings.cmake_args == ()


def test_cmake_args_that_are_settings_by_another_name(load: Load) -> None:
    arguments = "-DTORCH_CUDA_ARCH_LIST=9.0 -DCMAKE_BUILD_TYPE=Debug -DCUDA_TOOLKIT_ROOT_DIR=/opt/cuda"
    settings = load(environment={"CMAKE_ARGS": arguments})
    assert dict(settings.define) == {}
    assert (str(settings.arch), settings.build_type, settings.cuda_path) == ("9.0", "Debug", "/opt/cuda")


@pytest.mark.parametrize("arguments", ["-DUSE_NCCL", "-GNinja blah", "--build .", "-S /elsewhere", "'-DA=b"])
def test_malformed_cmake_args(refuse: Refuse, arguments: str) -> None:
    (problem,) = refuse(environment={"CMAKE_ARGS": arguments})
    assert (problem.id, problem.origin) == ("malformed-cmake-args", "variable CMAKE_ARGS")


def test_values_that_are_none(refuse: Refuse) -> None:
    environment = {
        "MAX_JOBS": "all",
        "CMAKE_BUILD_TYPE": "Fast",
        "TORCH_CUDA_ARCH_LIST": "99.9",
        "PYTORCH_BUILD_NUMBER": "2",
        "CXXFLAGS": "-g\n-O2",
    }
    problems = refuse(environment=environment)
    assert [(problem.id, problem.origin) for problem in problems] == [
        ("ill-typed-value", "variable CMAKE_BUILD_TYPE"),
        ("ill-typed-value", "variable CXXFLAGS"),
        ("ill-typed-value", "variable MAX_JOBS"),
        ("forbidden-value", "variable PYTORCH_BUILD_NUMBER"),
        ("unknown-architecture", "variable TORCH_CUDA_ARCH_LIST"),
    ]
    assert problems[2].remedy.endswith("for example MAX_JOBS=8")


def test_what_only_looks_like_pytorchs_is_left_alone(load: Load) -> None:
    environment = {
        "BUILD_NUMBER": "7",
        "BUILD_CAUSE_MANUAL": "true",
        "CMAKE_INSTALL_PREFIX": "/usr",
        "BUILD_X": "1",
    }
    settings = load(environment=environment)
    assert dict(settings.define) == {"BUILD_X": "1"}
    assert dict(settings.ignored_variables) == {
        "BUILD_NUMBER": "set by Jenkins",
        "BUILD_CAUSE_MANUAL": "set by Jenkins",
        "CMAKE_INSTALL_PREFIX": "would install or build something else than the wheel",
    }


@pytest.mark.parametrize(
    "name", ["USE_X", "CMAKE_ARGS", "BUILD_NUMBER", "CC", "MAX_JOBS", "PYTORCH_BUILD_NUMBER"]
)
def test_variables_that_must_not_leak(name: str) -> None:
    assert pytorch_variables().can_change_build(name)


@pytest.mark.parametrize("name", ["PATH", "HOME", "TORCHWHEEL_TARGET", "TMPDIR", "INCLUDE"])
def test_variables_that_may_stay(name: str) -> None:
    assert not pytorch_variables().can_change_build(name)
    assert pytorch_variables().reason_ignored(name) == ""


def test_ambient_settings_say_so(load: Load) -> None:
    settings = load(environment={"USE_NCCL": "1", "TORCHWHEEL_ENABLE": "gloo"})
    assert {name: setting.ambient for name, setting in settings.defines.items()} == {
        "USE_GLOO": False,
        "USE_NCCL": True,
    }
