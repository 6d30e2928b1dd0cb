#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace at {

using c10::DeviceType;
using c10::ScalarType;

/// A dense, contiguous, row-major block of floats on one device. Copies share the storage.
class Tensor {
 public:
  /// Elements are not initialised.
  TORCH_API static Tensor empty(std::vector<std::int64_t> sizes, DeviceType device);
  /// `values` in row-major order; as many as `sizes` asks for.
  TORCH_API static Tensor from_values(
      const std::vector<float>& values, std::vector<std::int64_t> sizes, DeviceType device);

  const std::vector<std::int64_t>& sizes() const {
    return sizes_;
  }
  std::int64_t dim() const {
    return static_cast<std::int64_t>(sizes_.size());
  }
  std::int64_t numel() const {
    return numel_;
  }
  DeviceType device() const {
    return storage_->device();
  }
  ScalarType dtype() const {
    return ScalarType::Float;
  }
  float* data() const {
    return static_cast<float*>(storage_->data());
  }

  /// All elements in row-major order, copied to the host.
  TORCH_API std::vector<float> values() const;
  /// The same elements on a device; shares the storage if they are there already.
  TORCH_API Tensor to(DeviceType device) const;

 private:
  Tensor(c10::intrusive_ptr<c10::Storage> storage, std::vector<std::int64_t> sizes, std::int64_t numel);

  c10::intrusive_ptr<c10::Storage> storage_;
  std::vector<std::int64_t> sizes_;
  std::int64_t numel_;
};

/// The device that all of them are on; throws c10::Error if they are not on the same one.
TORCH_API DeviceType common_device(std::initializer_list<const Tensor*> tensors);

/// For matmul and attention: throws c10::Error unless both are matrices and left's columns are right's rows.
TORCH_API void check_matrix_product(const Tensor& left, const Tensor& right);

/// For element-wise operators: throws c10::Error unless the shapes are equal or `other` has one element.
TORCH_API void check_elementwise(const Tensor& self, const Tensor& other);

/// Throws c10::Error unless query (n, d), key (m, d) and value (m, e) fit together.
TORCH_API void check_attention(const Tensor& query, const Tensor& key, const Tensor& value);

} // namespace at
