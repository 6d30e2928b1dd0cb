#include "../pixel_math.h"
#include "loops.h"

namespace texture_kernels::cpu {
namespace {

constexpr int64_t pixels_per_task = 4096;

// Calls function(offset of the pixel's first channel) for every pixel.
template <class Function>
void for_each_pixel(int64_t count, int64_t plane, const Function& function) {
  in_parallel(count * plane, pixels_per_task, [&](int64_t begin, int64_t end) {
    for (int64_t pixel = begin; pixel < end; ++pixel) function(pixel + pixel / plane * 2 * plane);
  });
}

}  // namespace

void rgb_to_lab(Element element, const void* rgb, void* lab, Images images) {
  const int64_t plane = images.height * images.width;
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    for_each_pixel(images.count, plane, [&](int64_t at) {
      store(static_cast<T*>(lab) + at, plane, lab_from_rgb(load(static_cast<const T*>(rgb) + at, plane)));
    });
  });
}

void rgb_to_lab_backward(Element element, const void* grad_lab, const void* rgb, void* grad_rgb, Images images) {
  const int64_t plane = images.height * images.width;
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    for_each_pixel(images.count, plane, [&](int64_t at) {
      const auto gradient = load(static_cast<const T*>(grad_lab) + at, plane);
      const auto colour = load(static_cast<const T*>(rgb) + at, plane);
      store(static_cast<T*>(grad_rgb) + at, plane, lab_from_rgb_backward(gradient, colour));
    });
  });
}

}  // namespace texture_kernels::cpu
