// What the CUDA kernels share: element types.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../kernels.h"
#include "../pixel_math.h"

namespace texture_kernels {

// The types' own conversions may not be used: extensions of PyTorch are built with __CUDA_NO_HALF_CONVERSIONS__ and
// the like.
template <>
struct ElementType<__half> {
  using Arithmetic = float;
  __device__ static float widen(__half value) { return __half2float(value); }
  __device__ static __half narrow(float value) { return __float2half_rn(value); }
};
template <>
struct ElementType<__nv_bfloat16> {
  using Arithmetic = float;
  __device__ static float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  __device__ static __nv_bfloat16 narrow(float value) { return __float2bfloat16_rn(value); }
};

namespace cuda {

// Calls the function with an object of the element's type.
template <class Function>
void with_element(Element element, const Function& function) {
  switch (element) {
    case Element::Float:
      return function(float{});
    case Element::Double:
      return function(double{});
    case Element::Half:
      return function(__half{});
    case Element::BFloat16:
      return function(__nv_bfloat16{});
  }
}

}  // namespace cuda

}  // namespace texture_kernels
