"""The projects whose builds are compared: C++ and CUDA operators as kernel authors write them."""

from __future__ import annotations

from pathlib import Path

_OPERATORS = ("softshrink", "gaussian", "logcosh", "triangle")
_EXPRESSIONS = (
    "x > k ? x - k : (x < -k ? x + k : 0)",
    "exp(-x * x * k)",
    "log(cosh(x * k))",
    "x * k - floor(x * k)",
)

_CPP = """\
#include <torch/extension.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <cmath>

using std::cosh; using std::exp; using std::floor; using std::log;

at::Tensor {name}(const at::Tensor& input, double factor) {{
  auto in = input.contiguous();
  auto out = at::empty_like(in);
  AT_DISPATCH_FLOATING_TYPES(in.scalar_type(), "{name}", [&] {{
    const scalar_t* from = in.const_data_ptr<scalar_t>();
    scalar_t* to = out.mutable_data_ptr<scalar_t>();
    const scalar_t k = static_cast<scalar_t>(factor);
    at::parallel_for(0, in.numel(), 4096, [&](int64_t begin, int64_t end) {{
      for (int64_t i = begin; i < end; ++i) {{ const scalar_t x = from[i]; to[i] = {expression}; }}
    }});
  }});
  return out;
}}
"""

_BINDINGS = """
{declarations}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{
{definitions}
}}
"""

_CU = """\
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

template <typename T>
__global__ void {name}_kernel(const T* from, T* to, int64_t count, T k) {{
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < count) {{ const T x = from[i]; to[i] = {expression}; }}
}}

at::Tensor {name}_cuda(const at::Tensor& input, double factor) {{
  auto in = input.contiguous();
  auto out = at::empty_like(in);
  const int64_t count = in.numel();
  if (count == 0) return out;
  AT_DISPATCH_FLOATING_TYPES(in.scalar_type(), "{name}_cuda", [&] {{
    {name}_kernel<scalar_t><<<(count + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        in.const_data_ptr<scalar_t>(), out.mutable_data_ptr<scalar_t>(), count, static_cast<scalar_t>(factor));
  }});
  return out;
}}
"""

_PLAIN_CU = """\
#include <cuda_runtime.h>

__global__ void scale_kernel(float* p, int count, float k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) p[i] *= k;
}

void scale(float* p, int count, float k) { scale_kernel<<<(count + 255) / 256, 256>>>(p, count, k); }
"""
_PLAIN_CPP = """\
#include <algorithm>
#include <vector>

float middle(std::vector<float> given) {
  std::nth_element(given.begin(), given.begin() + given.size() / 2, given.end());
  return given[given.size() / 2];
}
"""

_SETUP = """\
from setuptools import setup
from {module} import {function}, BuildExtension

setup(
    name="operators",
    version="1.0",
    packages=[],
    ext_modules=[{function}("operators", {sources!r}{further})],
    cmdclass={{"build_ext": BuildExtension}},
)
"""


def write_cpp_project(folder: Path, module: str, further: str = "") -> None:
    """Four C++ sources, one operator each, with ``torch/extension.h``."""
    names = [_write_cpp(folder, index) for index in range(4)]
    _bind(folder, names[0], list(_OPERATORS))
    _write_setup(folder, module, "CppExtension", names, further)


def write_mixed_project(folder: Path, module: str, further: str = "") -> None:
    """Three C++ sources with ``torch/extension.h``, and one of C++ and one of CUDA without PyTorch's headers."""
    names = [_write_cpp(folder, index) for index in range(3)]
    for name, text in {"csrc/middle.cpp": _PLAIN_CPP, "csrc/scale.cu": _PLAIN_CU}.items():
        (folder / name).write_text(text, encoding="utf-8")
        names.append(name)
    _bind(folder, names[0], list(_OPERATORS[:3]))
    _write_setup(folder, module, "CUDAExtension", names, further)


def write_cuda_project(folder: Path, module: str, further: str = "") -> None:
    """Two C++ and two CUDA sources with the same headers."""
    names = [_write_cpp(folder, index) for index in range(2)]
    for index in range(2):
        text = _CU.format(name=_OPERATORS[index], expression=_EXPRESSIONS[index])
        names.append(f"csrc/{_OPERATORS[index]}_kernel.cu")
        (folder / names[-1]).write_text(text, encoding="utf-8")
    _bind(folder, names[0], [*_OPERATORS[:2], *(f"{name}_cuda" for name in _OPERATORS[:2])])
    _write_setup(folder, module, "CUDAExtension", names, further)


def _write_cpp(folder: Path, index: int) -> str:
    name = f"csrc/{_OPERATORS[index]}.cpp"
    (folder / "csrc").mkdir(parents=True, exist_ok=True)
    text = _CPP.format(name=_OPERATORS[index], expression=_EXPRESSIONS[index])
    (folder / name).write_text(text, encoding="utf-8")
    return name


def _bind(folder: Path, source: str, operators: list[str]) -> None:
    declarations = "\n".join(
        f"at::Tensor {name}(const at::Tensor& input, double factor);" for name in operators
    )
    definitions = "\n".join(f'  m.def("{name}", &{name});' for name in operators)
    with (folder / source).open("a", encoding="utf-8") as file:
        file.write(_BINDINGS.format(declarations=declarations, definitions=definitions))


def _write_setup(folder: Path, module: str, function: str, sources: list[str], further: str) -> None:
    text = _SETUP.format(module=module, function=function, sources=sources, further=further)
    (folder / "setup.py").write_text(text, encoding="utf-8")
