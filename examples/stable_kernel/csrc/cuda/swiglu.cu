#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "../kernels.h"
#include "../swiglu.h"

namespace stable_kernel {

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
namespace {

constexpr int threads_per_block = 256;
constexpr int64_t most_blocks = 1 << 20;

int blocks_for(int64_t count) {
  const int64_t blocks = (count + threads_per_block - 1) / threads_per_block;
  return static_cast<int>(blocks < most_blocks ? blocks : most_blocks);
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    swiglu_kernel(const T* __restrict__ gate, const T* __restrict__ up, T* __restrict__ out, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * threads_per_block;
  for (int64_t i = int64_t{blockIdx.x} * threads_per_block + threadIdx.x; i < count; i += step) {
    out[i] = swiglu_of(gate[i], up[i]);
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    swiglu_backward_kernel(const T* __restrict__ grad_out, const T* __restrict__ gate, const T* __restrict__ up,
                           T* __restrict__ grad_gate, T* __restrict__ grad_up, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * threads_per_block;
  for (int64_t i = int64_t{blockIdx.x} * threads_per_block + threadIdx.x; i < count; i += step) {
    const Gradients<T> both = swiglu_backward_of(grad_out[i], gate[i], up[i]);
    grad_gate[i] = both.gate;
    grad_up[i] = both.up;
  }
}

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

}  // namespace

void swiglu(Element element, const void* gate, const void* up, void* out, int64_t count, cudaStream_t stream) {
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    swiglu_kernel<<<blocks_for(count), threads_per_block, 0, stream>>>(
        static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<T*>(out), count);
  });
}

void swiglu_backward(Element element, const void* grad_out, const void* gate, const void* up, void* grad_gate,
                     void* grad_up, int64_t count, cudaStream_t stream) {
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    swiglu_backward_kernel<<<blocks_for(count), threads_per_block, 0, stream>>>(
        static_cast<const T*>(grad_out), static_cast<const T*>(gate), static_cast<const T*>(up),
        static_cast<T*>(grad_gate), static_cast<T*>(grad_up), count);
  });
}

}  // namespace cuda

}  // namespace stable_kernel
