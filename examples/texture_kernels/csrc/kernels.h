// The kernels as plain C++: no header of PyTorch or CUDA. Who calls them and who defines them are compiled apart, so
// that neither reads the other's headers.
#pragma once

#include <cstdint>

using cudaStream_t = struct CUstream_st*;

namespace texture_kernels {

// What the elements of a tensor are; arithmetic is done in double for Double and in float for the others.
enum class Element { Float, Double, Half, BFloat16 };

// Images one after another, without gaps; each has planes (channels) of `height` rows of `width` pixels.
struct Images {
  int64_t count;
  int64_t height;
  int64_t width;
};

// All functions take pointers to `Element`s and at least one pixel. rgb, lab and their gradients have 3 planes an
// image; images of sobel have one plane, and its edges have two: the derivatives along x and along y.
namespace cpu {
void rgb_to_lab(Element element, const void* rgb, void* lab, Images images);
void rgb_to_lab_backward(Element element, const void* grad_lab, const void* rgb, void* grad_rgb, Images images);
void sobel(Element element, const void* image, void* edges, Images images);
void sobel_backward(Element element, const void* grad_edges, void* grad_image, Images images);
}  // namespace cpu

// The same for memory of the current device; they return when the work is queued on the stream.
namespace cuda {
void rgb_to_lab(Element element, const void* rgb, void* lab, Images images, cudaStream_t stream);
void rgb_to_lab_backward(Element element, const void* grad_lab, const void* rgb, void* grad_rgb, Images images,
                         cudaStream_t stream);
void sobel(Element element, const void* image, void* edges, Images images, cudaStream_t stream);
void sobel_backward(Element element, const void* grad_edges, void* grad_image, Images images, cudaStream_t stream);
}  // namespace cuda

}  // namespace texture_kernels
