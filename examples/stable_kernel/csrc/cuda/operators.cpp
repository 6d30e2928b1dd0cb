// The operators for CUDA, in a module of their own: it needs libtorch_cuda, which a PyTorch without CUDA does not have.
// torchwheel defines USE_CUDA, without which PyTorch's stable headers hide what is for CUDA.
#include "../module.h"

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <tuple>

#include "../checks.h"
#include "../kernels.h"

namespace stable_kernel {
namespace {

cuda::Element element_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      return cuda::Element::Float;
    case ScalarType::Double:
      return cuda::Element::Double;
    case ScalarType::Half:
      return cuda::Element::Half;
    case ScalarType::BFloat16:
      return cuda::Element::BFloat16;
    default:
      STD_TORCH_CHECK(false, "\"swiglu\" not implemented for '",
                      torch::headeronly::toString(tensor.scalar_type()), "'");
  }
}

cudaStream_t current_stream(const Tensor& tensor) {
  void* stream = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
  return static_cast<cudaStream_t>(stream);
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  check_like_gate(up, "up", gate);
  const cuda::Element element = element_of(gate);
  const torch::stable::accelerator::DeviceGuard guard(gate.get_device_index());
  const Tensor gates = torch::stable::contiguous(gate);
  const Tensor ups = torch::stable::contiguous(up);
  Tensor out = torch::stable::empty_like(gates);
  if (out.numel() > 0) {
    cuda::swiglu(element, gates.const_data_ptr(), ups.const_data_ptr(), out.mutable_data_ptr(), out.numel(),
                 current_stream(gate));
    STD_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return out;
}

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& grad_out, const Tensor& gate, const Tensor& up) {
  check_like_gate(up, "up", gate);
  check_like_gate(grad_out, "grad_out", gate);
  const cuda::Element element = element_of(gate);
  const torch::stable::accelerator::DeviceGuard guard(gate.get_device_index());
  const Tensor gradients = torch::stable::contiguous(grad_out);
  const Tensor gates = torch::stable::contiguous(gate);
  const Tensor ups = torch::stable::contiguous(up);
  Tensor grad_gate = torch::stable::empty_like(gates);
  Tensor grad_up = torch::stable::empty_like(gates);
  if (grad_gate.numel() > 0) {
    cuda::swiglu_backward(element, gradients.const_data_ptr(), gates.const_data_ptr(), ups.const_data_ptr(),
                          grad_gate.mutable_data_ptr(), grad_up.mutable_data_ptr(), grad_gate.numel(),
                          current_stream(gate));
    STD_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return {grad_gate, grad_up};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(stable_kernel, CUDA, library) {
  library.impl("swiglu", TORCH_BOX(&swiglu));
  library.impl("swiglu_backward", TORCH_BOX(&swiglu_backward));
}

}  // namespace stable_kernel

STABLE_KERNEL_MODULE(_cuda)
