// What the operators ask of their tensors, on any device.
#pragma once

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace stable_kernel {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline std::string shape_of(const Tensor& tensor) {
  std::ostringstream text;
  const char* separator = "[";
  for (const int64_t size : tensor.sizes()) {
    text << separator << size;
    separator = ", ";
  }
  text << (tensor.dim() == 0 ? "[]" : "]");
  return text.str();
}

// Checks that `other` has the shape, the type and the device of `gate`.
inline void check_like_gate(const Tensor& other, const char* name, const Tensor& gate) {
  const auto sizes = gate.sizes();
  const auto others = other.sizes();
  STD_TORCH_CHECK(std::equal(sizes.begin(), sizes.end(), others.begin(), others.end()), name,
                  " must have gate's shape ", shape_of(gate), ", but has ", shape_of(other));
  STD_TORCH_CHECK(other.scalar_type() == gate.scalar_type(), name, " must be of gate's type ",
                  torch::headeronly::toString(gate.scalar_type()), ", but is ",
                  torch::headeronly::toString(other.scalar_type()));
  STD_TORCH_CHECK(other.device() == gate.device(), name, " must be on gate's device");
}

}  // namespace stable_kernel
