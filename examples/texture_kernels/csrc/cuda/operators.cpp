// The operators for CUDA.
#include "../operators.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

namespace texture_kernels {
namespace {

// The kernel, launched on the tensor's device in its current stream.
template <class Kernel>
auto beside(const at::Tensor& tensor, const Kernel& kernel) {
  return [device = tensor.device(), &kernel](auto... arguments) {
    const c10::cuda::CUDAGuard guard(device);
    kernel(arguments..., c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
}

}  // namespace

TORCH_LIBRARY_IMPL(texture_kernels, CUDA, library) {
  library.impl("rgb_to_lab",
               [](const at::Tensor& rgb) { return rgb_to_lab(rgb, beside(rgb, cuda::rgb_to_lab)); });
  library.impl("rgb_to_lab_backward", [](const at::Tensor& grad_lab, const at::Tensor& rgb) {
    return rgb_to_lab_backward(grad_lab, rgb, beside(rgb, cuda::rgb_to_lab_backward));
  });
  library.impl("sobel", [](const at::Tensor& image) { return sobel(image, beside(image, cuda::sobel)); });
  library.impl("sobel_backward", [](const at::Tensor& grad_edges) {
    return sobel_backward(grad_edges, beside(grad_edges, cuda::sobel_backward));
  });
}

}  // namespace texture_kernels
