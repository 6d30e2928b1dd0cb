// The operators, for any device: what a tensor must be, the result's memory, and one call of a kernel.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <vector>

#include "kernels.h"

namespace texture_kernels {

inline Element element_of(const at::Tensor& tensor, const char* name) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Element::Float;
    case at::kDouble:
      return Element::Double;
    case at::kHalf:
      return Element::Half;
    case at::kBFloat16:
      return Element::BFloat16;
    default:
      TORCH_CHECK_TYPE(false, name, " must be of a floating point type, but is ", tensor.scalar_type());
  }
}

// Checks that the shape is (..., channels, height, width); 0 stands for any number of channels, also for none.
inline void check_shape(const at::Tensor& tensor, const char* name, int64_t channels) {
  if (channels == 0) {
    TORCH_CHECK_VALUE(tensor.dim() >= 2, name, " must have the shape (..., height, width), but has ", tensor.sizes());
  } else {
    TORCH_CHECK_VALUE(tensor.dim() >= 3 && tensor.size(-3) == channels, name, " must have the shape (..., ", channels,
                      ", height, width), but has ", tensor.sizes());
  }
}

inline Images images_of(const at::Tensor& tensor, int64_t channels) {
  const int64_t height = tensor.size(-2);
  const int64_t width = tensor.size(-1);
  return {tensor.numel() / (channels * height * width), height, width};
}

template <class Kernel>
at::Tensor rgb_to_lab(const at::Tensor& rgb, const Kernel& kernel) {
  check_shape(rgb, "rgb", 3);
  const Element element = element_of(rgb, "rgb");
  const at::Tensor source = rgb.contiguous();
  at::Tensor lab = source.new_empty(source.sizes());
  if (lab.numel() > 0) kernel(element, source.const_data_ptr(), lab.mutable_data_ptr(), images_of(source, 3));
  return lab;
}

template <class Kernel>
at::Tensor rgb_to_lab_backward(const at::Tensor& grad_lab, const at::Tensor& rgb, const Kernel& kernel) {
  check_shape(rgb, "rgb", 3);
  const Element element = element_of(rgb, "rgb");
  TORCH_CHECK_VALUE(grad_lab.sizes() == rgb.sizes(), "grad_lab must have rgb's shape ", rgb.sizes(), ", but has ",
                    grad_lab.sizes());
  TORCH_CHECK_TYPE(grad_lab.scalar_type() == rgb.scalar_type(), "grad_lab must be of rgb's type ", rgb.scalar_type(),
                   ", but is ", grad_lab.scalar_type());
  TORCH_CHECK_VALUE(grad_lab.device() == rgb.device(), "grad_lab must be on rgb's device ", rgb.device(),
                    ", but is on ", grad_lab.device());
  const at::Tensor gradient = grad_lab.contiguous();
  const at::Tensor source = rgb.contiguous();
  at::Tensor grad_rgb = source.new_empty(source.sizes());
  if (grad_rgb.numel() > 0) {
    kernel(element, gradient.const_data_ptr(), source.const_data_ptr(), grad_rgb.mutable_data_ptr(),
           images_of(source, 3));
  }
  return grad_rgb;
}

template <class Kernel>
at::Tensor sobel(const at::Tensor& image, const Kernel& kernel) {
  check_shape(image, "image", 0);
  const Element element = element_of(image, "image");
  const at::Tensor source = image.contiguous();
  std::vector<int64_t> shape = source.sizes().vec();
  shape.insert(shape.end() - 2, 2);
  at::Tensor edges = source.new_empty(shape);
  if (edges.numel() > 0) kernel(element, source.const_data_ptr(), edges.mutable_data_ptr(), images_of(source, 1));
  return edges;
}

template <class Kernel>
at::Tensor sobel_backward(const at::Tensor& grad_edges, const Kernel& kernel) {
  check_shape(grad_edges, "grad_edges", 2);
  const Element element = element_of(grad_edges, "grad_edges");
  const at::Tensor gradient = grad_edges.contiguous();
  std::vector<int64_t> shape = gradient.sizes().vec();
  shape.erase(shape.end() - 3);
  at::Tensor grad_image = gradient.new_empty(shape);
  if (grad_image.numel() > 0) {
    kernel(element, gradient.const_data_ptr(), grad_image.mutable_data_ptr(), images_of(gradient, 2));
  }
  return grad_image;
}

}  // namespace texture_kernels
