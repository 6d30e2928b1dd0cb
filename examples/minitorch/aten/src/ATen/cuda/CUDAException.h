#pragma once

#include <c10/util/Exception.h>

#include <cuda_runtime.h>

#include <string>

#define C10_CUDA_CHECK(call)                                                                  \
  do {                                                                                        \
    const cudaError_t status = (call);                                                        \
    TORCH_CHECK(status == cudaSuccess, std::string("CUDA error: ") + cudaGetErrorString(status)); \
  } while (false)
