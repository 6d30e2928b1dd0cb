#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <miniblas.h>

#include <algorithm>
#include <cmath>

namespace at::native::cpu {

Tensor matmul(const Tensor& self, const Tensor& other) {
  check_matrix_product(self, other);
  TORCH_CHECK(self.device() == c10::DeviceType::CPU, "this kernel is the CPU's");
  Tensor result = Tensor::empty({self.sizes()[0], other.sizes()[1]}, DeviceType::CPU);
  miniblas_sgemm(
      static_cast<std::size_t>(self.sizes()[0]),
      static_cast<std::size_t>(self.sizes()[1]),
      static_cast<std::size_t>(other.sizes()[1]),
      self.data(),
      other.data(),
      result.data());
  return result;
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value) {
  check_attention(query, key, value);
  const std::int64_t queries = query.sizes()[0];
  const std::int64_t width = query.sizes()[1];
  const std::int64_t keys = key.sizes()[0];
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  Tensor weights = Tensor::empty({queries, keys}, DeviceType::CPU);
  for (std::int64_t q = 0; q < queries; ++q) {
    float* row = weights.data() + q * keys;
    for (std::int64_t k = 0; k < keys; ++k) {
      row[k] = 0.0f;
      for (std::int64_t i = 0; i < width; ++i) {
        row[k] += query.data()[q * width + i] * key.data()[k * width + i] * scale;
      }
    }
    // Subtracting the largest score keeps exp() from overflowing and changes nothing else.
    const float largest = *std::max_element(row, row + keys);
    float total = 0.0f;
    for (std::int64_t k = 0; k < keys; ++k) {
      row[k] = std::exp(row[k] - largest);
      total += row[k];
    }
    for (std::int64_t k = 0; k < keys; ++k) {
      row[k] /= total;
    }
  }
  return cpu::matmul(weights, value);
}

} // namespace at::native::cpu
