"""Objects are those of torch.utils.cpp_extension's own build, symbol by symbol and cubin by cubin."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from extension.torch_build import OWN, TORCH, objects
from extension.torch_objects import Object, read_object

pytestmark = pytest.mark.torch

CPP = """\
#include <Python.h>
#include <c10/util/Exception.h>
#include <cassert>
#include <string>

long launch(float* p, long n);

static PyObject* answer(PyObject*, PyObject* given) {
  const long n = PyLong_AsLong(given);
  TORCH_CHECK(n >= 0, "negative: ", n);
  assert(n != 7);
  return PyUnicode_FromString(std::to_string(launch(nullptr, n)).c_str());
}
static PyMethodDef methods[] = {{"answer", answer, METH_O, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "parity", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_parity() { return PyModule_Create(&module); }
"""
KERNELS = """\
#include <cassert>
#include <cuda_fp16.h>

namespace {
__constant__ float factors[4];
constexpr float half_of(float x) { return x / 2; }
__device__ float wide(float x) { return x; }
__device__ float wide(__half x) { return __half2float(x); }
__device__ float narrow(float, float x) { return x; }
__device__ __half narrow(__half, float x) { return __float2half(x); }

template <typename T>
__global__ void scale(T* p, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(i < n);
#if __CUDA_ARCH__ >= 900 && defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;");
#endif
  p[i] = narrow(p[i], half_of(wide(p[i])) * factors[i % 4]);
}
}  // namespace

long launch(float* p, long n) {
  scale<float><<<1, 32>>>(p, static_cast<int>(n));
  scale<__half><<<1, 32>>>(reinterpret_cast<__half*>(p), static_cast<int>(n));
  return n;
}
"""


def _read(
    python: str, folder: Path, module: str, sources: dict[str, str], **variables: str
) -> dict[str, Object]:
    # Compressed images cannot be compared.
    variables = {"NVCC_APPEND_FLAGS": "--no-compress", "TORCH_CUDA_ARCH_LIST": "8.0;9.0a+PTX", **variables}
    made = objects(python, folder, module, sources, variables)
    return {name: read_object(path) for name, path in made.items()}


def test_cpp_objects_are_equal(torch_python: str, tmp_path: Path) -> None:
    sources = {"a.cpp": CPP, "b.cpp": "long launch(float*, long n) { return n; }\n"}
    theirs = _read(torch_python, tmp_path / "torch", TORCH, sources)
    own = _read(torch_python, tmp_path / "own", OWN, sources)
    assert own == theirs
    assert own["a"].exported == {"T PyInit_parity"}


def test_cuda_objects_are_equal(cuda_torch_python: str, tmp_path: Path) -> None:
    sources = {"a.cpp": CPP, "k.cu": KERNELS}
    asked = [cuda_torch_python, "-c", "import torchwheel; print(torchwheel.CUDA_HOME)"]
    # PyPI's packages alone have no libcudart.so, which torch.utils.cpp_extension links.
    home = subprocess.check_output(asked, cwd=tmp_path, text=True).strip()
    theirs = _read(cuda_torch_python, tmp_path / "torch", TORCH, sources, CUDA_HOME=home)
    assert set(theirs["k"].images) == {"sm80", "sm90a", "ptx90a"}
    own = _read(cuda_torch_python, tmp_path / "own", OWN, sources)
    assert own == theirs
