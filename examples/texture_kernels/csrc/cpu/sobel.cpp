#include <algorithm>

#include "../pixel_math.h"
#include "loops.h"

namespace texture_kernels::cpu {
namespace {

constexpr int64_t pixels_per_task = 16384;

// Calls function(image, row, column) for every pixel.
template <class Function>
void for_each_pixel(Images images, const Function& function) {
  const int64_t rows_per_task = std::max<int64_t>(1, pixels_per_task / images.width);
  in_parallel(images.count * images.height, rows_per_task, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t image = index / images.height;
      const int64_t row = index % images.height;
      for (int64_t column = 0; column < images.width; ++column) function(image, row, column);
    }
  });
}

}  // namespace

void sobel(Element element, const void* image, void* edges, Images images) {
  const int64_t plane = images.height * images.width;
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    for_each_pixel(images, [&](int64_t index, int64_t row, int64_t column) {
      const T* source = static_cast<const T*>(image) + index * plane;
      T* result = static_cast<T*>(edges) + index * 2 * plane + row * images.width + column;
      const auto derivatives = sobel_at(source, row, column, images.height, images.width);
      result[0] = narrow<T>(derivatives.x);
      result[plane] = narrow<T>(derivatives.y);
    });
  });
}

void sobel_backward(Element element, const void* grad_edges, void* grad_image, Images images) {
  const int64_t plane = images.height * images.width;
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    for_each_pixel(images, [&](int64_t index, int64_t row, int64_t column) {
      const T* grad_x = static_cast<const T*>(grad_edges) + index * 2 * plane;
      T* result = static_cast<T*>(grad_image) + index * plane + row * images.width + column;
      *result = narrow<T>(sobel_backward_at(grad_x, grad_x + plane, row, column, images.height, images.width));
    });
  });
}

}  // namespace texture_kernels::cpu
