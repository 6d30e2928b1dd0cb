#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace at::cuda {

/// Registers the CUDA allocator and kernels. Does not touch the driver, so it works without a GPU.
TORCH_CUDA_API void initialize();

/// Number of usable GPUs; 0 without a driver.
TORCH_CUDA_API int device_count();

/// Name of the current GPU. Throws c10::Error without one.
TORCH_CUDA_API std::string device_name();

/// Compute capability of the current GPU. Throws c10::Error without one.
TORCH_CUDA_API void device_capability(int* major, int* minor);

} // namespace at::cuda
