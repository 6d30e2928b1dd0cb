// The CUDA kernels as plain C++: who calls them and who defines them are compiled apart, so that the device code, which
// is compiled once an architecture, reads no header of PyTorch.
#pragma once

#include <cstdint>

using cudaStream_t = struct CUstream_st*;

namespace stable_kernel::cuda {

// What the elements of a tensor are; arithmetic is done in double for Double and in float for the others.
enum class Element { Float, Double, Half, BFloat16 };

// Pointers are to `count` elements (one or more) of the current device; the work is queued on the stream.
void swiglu(Element element, const void* gate, const void* up, void* out, int64_t count, cudaStream_t stream);
void swiglu_backward(Element element, const void* grad_out, const void* gate, const void* up, void* grad_gate,
                     void* grad_up, int64_t count, cudaStream_t stream);

}  // namespace stable_kernel::cuda
