"""Logs of failures that no entry of the catalogue knows are explained by the class of their first error."""

from __future__ import annotations

import io

import pytest

from places import LOGS
from torchwheel.diagnosis.grammar import read_classes
from torchwheel.diagnosis.scanner import diagnose

LOGS = LOGS / "classes"
SITE = "/home/me/.venv/lib/python3.12/site-packages"
STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
EXPECTED = {
    "cmake-package-missing.release": (3, {"package": "HIP", "wanted": "1.0", "found": "6.0.0"}),
    "cmake-package-missing.variable": (5, {"package": "MKL", "missing": "MKL_INCLUDE_DIR"}),
    "file-missing.build-folder": (
        3,
        {
            "name": "/home/me/pytorch/build/public/utils.cmake",
            "config": "/home/me/pytorch/build/Caffe2Config.cmake",
        },
    ),
    "out-of-memory.header": (2, {"message": "Cannot allocate memory", "compiling": "Building CXX object"}),
    "wrong-machine.apple": (3, {"file": "/opt/libtorch/lib/libtorch_cpu.dylib"}),
    "permission-denied.winerror-5": (
        18,
        {"name": r"C:\\Users\\me\\venv\\Lib\\site-packages\\my_ops\\_C.pyd", "in_use": "WinError 5"},
    ),
    "killed.ninja": (7, {"compiling": "Building CXX object"}),
    "packaging-invalid.scikit": (30, {"message": "Readme file not found ('docs/README.md')"}),
    "missing-input.cython": (
        3,
        {
            "name": "my_seq/fast.cpp",
            "target": "build/temp/my_seq/fast.o",
            "module": "my_seq.fast",
        },
    ),
    "python-library-unfit.distutils": (
        22,
        {
            "module": "distutils",
            "distribution": "setuptools",
            "gone": "distutils",
            "removed": "yes",
            "bundled": "yes",
        },
    ),
    "relocation-unfit.bss": (22, {"relocation": "R_X86_64_PC32", "symbol": "table_b"}),
    "setup-failed.lines": (
        7,
        {
            "kind": "ImportError",
            "message": "BLAS not found from numpy.distutils.system_info.get_info. Please specify BLAS with: "
            'python setup.py install --blas=openblas" for more information, please visit '
            "https://example.org/wiki/Installation",
            "at": "/tmp/pip-wheel-1x/my-engine_9c/setup.py:210",
            "source": "raise ImportError(",
            "setup": "yes",
            "says": "yes",
            "importerror": "yes",
            "user_code": "/tmp/pip-wheel-1x/my-engine_9c/setup.py",
            "where": "/tmp/pip-wheel-1x/my-engine_9c/setup.py",
        },
    ),
    "source-error.pip": (
        21,
        {"file": "csrc/bind.cpp", "line": "7", "message": "'forwrd' was not declared in this scope"},
    ),
    "undefined-symbol.import": (
        18,
        {"file": f"{SITE}/my_ops/_C.so", "loaded": "yes", "symbol": "_ZN6my_ops7forwardERKN2at6TensorE"},
    ),
    "undefined-symbol.own": (
        22,
        {"file": "bind.cpp", "symbol": f"my_ops::forward(at::Tensor const&, {STRING} const&)"},
    ),
    "warning-as-error.gcc": (
        10,
        {
            "file": "/usr/lib/gcc/x86_64-linux-gnu/12/include/avx512fintrin.h",
            "line": "1206",
            "flag": "maybe-uninitialized",
            "message": "'__Y' may be used uninitialized",
        },
    ),
}


def test_every_log_of_a_class_is_expected() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_class_line_and_captures(name: str) -> None:
    line, captures = EXPECTED[name]
    diagnosis = diagnose(io.BytesIO((LOGS / f"{name}.log").read_bytes()))
    cause = diagnosis.cause
    assert cause is not None
    otherwise = read_classes()[name.split(".")[0]].otherwise.items()
    caught = dict(cause.captures.items() - otherwise)
    assert (cause.entry.id, cause.line.number, caught) == (name.split(".")[0], line, captures)
