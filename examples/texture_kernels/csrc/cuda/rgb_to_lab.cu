#include <cuda_runtime.h>

#include "elements.cuh"

namespace texture_kernels::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int64_t most_blocks = 1 << 20;

int blocks_for(int64_t pixels) {
  const int64_t blocks = (pixels + threads_per_block - 1) / threads_per_block;
  return static_cast<int>(blocks < most_blocks ? blocks : most_blocks);
}

// One thread a pixel; neighbouring threads read neighbouring elements of each plane.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    rgb_to_lab_kernel(const T* __restrict__ rgb, T* __restrict__ lab, int64_t count, int64_t plane) {
  const int64_t step = int64_t{gridDim.x} * threads_per_block;
  for (int64_t pixel = int64_t{blockIdx.x} * threads_per_block + threadIdx.x; pixel < count * plane; pixel += step) {
    const int64_t at = pixel + pixel / plane * 2 * plane;
    store(lab + at, plane, lab_from_rgb(load(rgb + at, plane)));
  }
}

template <class T>
__global__ void __launch_bounds__(threads_per_block)
    rgb_to_lab_backward_kernel(const T* __restrict__ grad_lab, const T* __restrict__ rgb, T* __restrict__ grad_rgb,
                               int64_t count, int64_t plane) {
  const int64_t step = int64_t{gridDim.x} * threads_per_block;
  for (int64_t pixel = int64_t{blockIdx.x} * threads_per_block + threadIdx.x; pixel < count * plane; pixel += step) {
    const int64_t at = pixel + pixel / plane * 2 * plane;
    store(grad_rgb + at, plane, lab_from_rgb_backward(load(grad_lab + at, plane), load(rgb + at, plane)));
  }
}

}  // namespace

void rgb_to_lab(Element element, const void* rgb, void* lab, Images images, cudaStream_t stream) {
  const int64_t plane = images.height * images.width;
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    rgb_to_lab_kernel<<<blocks_for(images.count * plane), threads_per_block, 0, stream>>>(
        static_cast<const T*>(rgb), static_cast<T*>(lab), images.count, plane);
  });
}

void rgb_to_lab_backward(Element element, const void* grad_lab, const void* rgb, void* grad_rgb, Images images,
                         cudaStream_t stream) {
  const int64_t plane = images.height * images.width;
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    rgb_to_lab_backward_kernel<<<blocks_for(images.count * plane), threads_per_block, 0, stream>>>(
        static_cast<const T*>(grad_lab), static_cast<const T*>(rgb), static_cast<T*>(grad_rgb), images.count, plane);
  });
}

}  // namespace texture_kernels::cuda
