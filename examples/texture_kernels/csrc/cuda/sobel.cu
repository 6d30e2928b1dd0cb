#include <cuda_runtime.h>

#include "elements.cuh"

namespace texture_kernels::cuda {
namespace {

constexpr int block_width = 32;
constexpr int block_height = 8;
// The largest grid along y and z.
constexpr int64_t most_blocks = 65535;

unsigned blocks_for(int64_t size, int64_t block, int64_t most = most_blocks) {
  const int64_t blocks = (size + block - 1) / block;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

dim3 grid_for(Images images) {
  return {blocks_for(images.width, block_width, INT32_MAX), blocks_for(images.height, block_height),
          blocks_for(images.count, 1)};
}

// Calls function(image, row, column) for every pixel: one thread a pixel, and the caches serve its neighbours.
template <class Function>
__device__ void for_each_pixel(Images images, const Function& function) {
  const int64_t column = int64_t{blockIdx.x} * block_width + threadIdx.x;
  if (column >= images.width) return;
  for (int64_t image = blockIdx.z; image < images.count; image += gridDim.z) {
    const int64_t first_row = int64_t{blockIdx.y} * block_height + threadIdx.y;
    for (int64_t row = first_row; row < images.height; row += int64_t{gridDim.y} * block_height) {
      function(image, row, column);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(block_width* block_height)
    sobel_kernel(const T* __restrict__ image, T* __restrict__ edges, Images images) {
  const int64_t plane = images.height * images.width;
  for_each_pixel(images, [&](int64_t index, int64_t row, int64_t column) {
    const auto derivatives = sobel_at(image + index * plane, row, column, images.height, images.width);
    T* result = edges + index * 2 * plane + row * images.width + column;
    result[0] = narrow<T>(derivatives.x);
    result[plane] = narrow<T>(derivatives.y);
  });
}

template <class T>
__global__ void __launch_bounds__(block_width* block_height)
    sobel_backward_kernel(const T* __restrict__ grad_edges, T* __restrict__ grad_image, Images images) {
  const int64_t plane = images.height * images.width;
  for_each_pixel(images, [&](int64_t index, int64_t row, int64_t column) {
    const T* grad_x = grad_edges + index * 2 * plane;
    grad_image[index * plane + row * images.width + column] =
        narrow<T>(sobel_backward_at(grad_x, grad_x + plane, row, column, images.height, images.width));
  });
}

}  // namespace

void sobel(Element element, const void* image, void* edges, Images images, cudaStream_t stream) {
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    sobel_kernel<<<grid_for(images), dim3(block_width, block_height), 0, stream>>>(static_cast<const T*>(image),
                                                                                   static_cast<T*>(edges), images);
  });
}

void sobel_backward(Element element, const void* grad_edges, void* grad_image, Images images, cudaStream_t stream) {
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    sobel_backward_kernel<<<grid_for(images), dim3(block_width, block_height), 0, stream>>>(
        static_cast<const T*>(grad_edges), static_cast<T*>(grad_image), images);
  });
}

}  // namespace texture_kernels::cuda
