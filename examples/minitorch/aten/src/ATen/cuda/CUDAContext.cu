#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAException.h>

#include <c10/core/Allocator.h>

namespace at::cuda {
namespace {

class DeviceAllocator final : public c10::Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&data, bytes));
    return data;
  }
  void deallocate(void* data) noexcept override {
    // At process exit the driver may be gone already; there is nobody to report that to.
    static_cast<void>(cudaFree(data));
  }
  void copy_from_host(void* destination, const void* source, std::size_t bytes) override {
    C10_CUDA_CHECK(cudaMemcpy(destination, source, bytes, cudaMemcpyHostToDevice));
  }
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override {
    C10_CUDA_CHECK(cudaMemcpy(destination, source, bytes, cudaMemcpyDeviceToHost));
  }
};

int current_device() {
  int device = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

} // namespace

void initialize() {
  static DeviceAllocator allocator;
  static const KernelTable table = cuda_kernels();
  c10::set_allocator(c10::DeviceType::CUDA, &allocator);
  register_kernels(c10::DeviceType::CUDA, &table);
}

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string device_name() {
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, current_device()));
  return properties.name;
}

void device_capability(int* major, int* minor) {
  const int device = current_device();
  C10_CUDA_CHECK(cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, device));
}

} // namespace at::cuda
