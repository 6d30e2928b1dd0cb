#include <ATen/Functions.h>
#include <ATen/cuda/CUDAException.h>

namespace at::native::cuda {
namespace {

constexpr int threads_per_block = 256;

/// Blocks for a grid-stride loop over `count` elements; at least one, as a launch of none is an error.
int block_count(std::int64_t count) {
  const std::int64_t blocks = (count + threads_per_block - 1) / threads_per_block;
  return static_cast<int>(blocks < 1 ? 1 : blocks > 65535 ? 65535 : blocks);
}

struct Add {
  __device__ float operator()(float left, float right) const {
    return left + right;
  }
};

struct Mul {
  __device__ float operator()(float left, float right) const {
    return left * right;
  }
};

__global__ void fill_kernel(float* out, float value, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    out[i] = value;
  }
}

template <class Operation>
__global__ void elementwise_kernel(
    const float* left, const float* right, std::int64_t right_step, float* out, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    out[i] = Operation()(left[i], right[i * right_step]);
  }
}

__global__ void matmul_kernel(
    const float* left, const float* right, float* out, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns; i += gridDim.x * blockDim.x) {
    const std::int64_t row = i / columns;
    const std::int64_t column = i % columns;
    float total = 0.0f;
    for (std::int64_t k = 0; k < inner; ++k) {
      total += left[row * inner + k] * right[k * columns + column];
    }
    out[i] = total;
  }
}

/// One block: each thread adds its share, then the shares are added pairwise in shared memory.
__global__ void sum_kernel(const float* values, float* out, std::int64_t count) {
  __shared__ float shares[threads_per_block];
  float share = 0.0f;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    share += values[i];
  }
  shares[threadIdx.x] = share;
  __syncthreads();
  for (int half = threads_per_block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      shares[threadIdx.x] += shares[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    *out = shares[0];
  }
}

template <class Operation>
Tensor elementwise(const Tensor& self, const Tensor& other) {
  check_elementwise(self, other);
  Tensor result = Tensor::empty(self.sizes(), DeviceType::CUDA);
  const std::int64_t right_step = other.numel() == 1 ? 0 : 1;
  elementwise_kernel<Operation><<<block_count(self.numel()), threads_per_block>>>(
      self.data(), other.data(), right_step, result.data(), self.numel());
  C10_CUDA_CHECK(cudaGetLastError());
  return result;
}

} // namespace

Tensor fill_(const Tensor& self, const c10::Scalar& value) {
  fill_kernel<<<block_count(self.numel()), threads_per_block>>>(self.data(), value.to_float(), self.numel());
  C10_CUDA_CHECK(cudaGetLastError());
  return self;
}

Tensor add(const Tensor& self, const Tensor& other) {
  return elementwise<Add>(self, other);
}

Tensor mul(const Tensor& self, const Tensor& other) {
  return elementwise<Mul>(self, other);
}

Tensor matmul(const Tensor& self, const Tensor& other) {
  check_matrix_product(self, other);
  const std::int64_t rows = self.sizes()[0];
  const std::int64_t columns = other.sizes()[1];
  Tensor result = Tensor::empty({rows, columns}, DeviceType::CUDA);
  matmul_kernel<<<block_count(rows * columns), threads_per_block>>>(
      self.data(), other.data(), result.data(), rows, self.sizes()[1], columns);
  C10_CUDA_CHECK(cudaGetLastError());
  return result;
}

Tensor sum(const Tensor& self) {
  Tensor result = Tensor::empty({}, DeviceType::CUDA);
  sum_kernel<<<1, threads_per_block>>>(self.data(), result.data(), self.numel());
  C10_CUDA_CHECK(cudaGetLastError());
  return result;
}

#ifndef USE_FLASH_ATTENTION
Tensor scaled_dot_product_attention(const Tensor&, const Tensor&, const Tensor&) {
  throw c10::Error("Torch not compiled with USE_FLASH_ATTENTION");
}
#endif

} // namespace at::native::cuda
