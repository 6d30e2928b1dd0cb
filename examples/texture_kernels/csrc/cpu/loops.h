// What the CPU kernels share: element types and threads.
#pragma once

#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>

#include "../kernels.h"

namespace texture_kernels::cpu {

// Calls the function with an object of the element's type.
template <class Function>
void with_element(Element element, const Function& function) {
  switch (element) {
    case Element::Float:
      return function(float{});
    case Element::Double:
      return function(double{});
    case Element::Half:
      return function(c10::Half{});
    case Element::BFloat16:
      return function(c10::BFloat16{});
  }
}

// Calls function(begin, end) for parts of [0, count) in PyTorch's own threads, `grain` or more in each part.
// at::parallel_for is a template: it runs in one thread unless what includes it is compiled with OpenMP's flags.
template <class Function>
void in_parallel(int64_t count, int64_t grain, const Function& function) {
  const auto call = [](int64_t begin, int64_t end, void* context) {
    (*static_cast<const Function*>(context))(begin, end);
  };
  torch_parallel_for(0, count, grain, call, const_cast<Function*>(&function));
}

}  // namespace texture_kernels::cpu
