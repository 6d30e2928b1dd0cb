// The schemas, and the operators for the CPU. Gradients and shapes for tracing are in operators.py.
#include "module.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>

#include <tuple>

#include "checks.h"
#include "swiglu.h"

namespace stable_kernel {
namespace {

constexpr int64_t elements_per_task = 8192;

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  check_like_gate(up, "up", gate);
  const Tensor gates = torch::stable::contiguous(gate);
  const Tensor ups = torch::stable::contiguous(up);
  Tensor out = torch::stable::empty_like(gates);
  THO_DISPATCH_V2(
      gate.scalar_type(), "swiglu", AT_WRAP([&] {
        const auto* g = gates.const_data_ptr<scalar_t>();
        const auto* u = ups.const_data_ptr<scalar_t>();
        auto* result = out.mutable_data_ptr<scalar_t>();
        torch::stable::parallel_for(0, out.numel(), elements_per_task, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) result[i] = swiglu_of(g[i], u[i]);
        });
      }),
      ScalarType::Float, ScalarType::Double, ScalarType::Half, ScalarType::BFloat16);
  return out;
}

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& grad_out, const Tensor& gate, const Tensor& up) {
  check_like_gate(up, "up", gate);
  check_like_gate(grad_out, "grad_out", gate);
  const Tensor gradients = torch::stable::contiguous(grad_out);
  const Tensor gates = torch::stable::contiguous(gate);
  const Tensor ups = torch::stable::contiguous(up);
  Tensor grad_gate = torch::stable::empty_like(gates);
  Tensor grad_up = torch::stable::empty_like(gates);
  THO_DISPATCH_V2(
      gate.scalar_type(), "swiglu_backward", AT_WRAP([&] {
        const auto* gradient = gradients.const_data_ptr<scalar_t>();
        const auto* g = gates.const_data_ptr<scalar_t>();
        const auto* u = ups.const_data_ptr<scalar_t>();
        auto* of_gate = grad_gate.mutable_data_ptr<scalar_t>();
        auto* of_up = grad_up.mutable_data_ptr<scalar_t>();
        torch::stable::parallel_for(0, grad_gate.numel(), elements_per_task, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const auto both = swiglu_backward_of(gradient[i], g[i], u[i]);
            of_gate[i] = both.gate;
            of_up[i] = both.up;
          }
        });
      }),
      ScalarType::Float, ScalarType::Double, ScalarType::Half, ScalarType::BFloat16);
  return {grad_gate, grad_up};
}

}  // namespace

STABLE_TORCH_LIBRARY(stable_kernel, library) {
  library.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  library.def("swiglu_backward(Tensor grad_out, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(stable_kernel, CPU, library) {
  library.impl("swiglu", TORCH_BOX(&swiglu));
  library.impl("swiglu_backward", TORCH_BOX(&swiglu_backward));
}

}  // namespace stable_kernel

STABLE_KERNEL_MODULE(_C)
