// The schemas, and the operators for the CPU. Gradients and shapes for tracing are in operators.py.
#include "operators.h"

#include <torch/library.h>

namespace texture_kernels {

TORCH_LIBRARY(texture_kernels, library) {
  library.def("rgb_to_lab(Tensor rgb) -> Tensor");
  library.def("rgb_to_lab_backward(Tensor grad_lab, Tensor rgb) -> Tensor");
  library.def("sobel(Tensor image) -> Tensor");
  library.def("sobel_backward(Tensor grad_edges) -> Tensor");
}

TORCH_LIBRARY_IMPL(texture_kernels, CPU, library) {
  library.impl("rgb_to_lab", [](const at::Tensor& rgb) { return rgb_to_lab(rgb, cpu::rgb_to_lab); });
  library.impl("rgb_to_lab_backward", [](const at::Tensor& grad_lab, const at::Tensor& rgb) {
    return rgb_to_lab_backward(grad_lab, rgb, cpu::rgb_to_lab_backward);
  });
  library.impl("sobel", [](const at::Tensor& image) { return sobel(image, cpu::sobel); });
  library.impl("sobel_backward",
               [](const at::Tensor& grad_edges) { return sobel_backward(grad_edges, cpu::sobel_backward); });
}

}  // namespace texture_kernels
