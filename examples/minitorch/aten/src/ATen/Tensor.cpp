#include <ATen/Tensor.h>

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

namespace at {
namespace {

std::int64_t count_elements(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) {
    TORCH_CHECK(size >= 0, "A tensor cannot have a negative size (" + std::to_string(size) + ")");
    count *= size;
  }
  return count;
}

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (std::int64_t size : tensor.sizes()) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

} // namespace

Tensor::Tensor(c10::intrusive_ptr<c10::Storage> storage, std::vector<std::int64_t> sizes, std::int64_t numel)
    : storage_(std::move(storage)), sizes_(std::move(sizes)), numel_(numel) {}

Tensor Tensor::empty(std::vector<std::int64_t> sizes, DeviceType device) {
  const std::int64_t count = count_elements(sizes);
  const std::size_t bytes = static_cast<std::size_t>(count) * c10::element_size(ScalarType::Float);
  c10::intrusive_ptr<c10::Storage> storage(new c10::Storage(device, bytes));
  return Tensor(std::move(storage), std::move(sizes), count);
}

Tensor Tensor::from_values(const std::vector<float>& values, std::vector<std::int64_t> sizes, DeviceType device) {
  Tensor result = empty(std::move(sizes), device);
  TORCH_CHECK(
      static_cast<std::int64_t>(values.size()) == result.numel(),
      std::to_string(values.size()) + " values do not fill a tensor of shape " + shape_text(result));
  c10::get_allocator(device).copy_from_host(result.data(), values.data(), result.storage_->bytes());
  return result;
}

std::vector<float> Tensor::values() const {
  std::vector<float> result(static_cast<std::size_t>(numel_));
  c10::get_allocator(device()).copy_to_host(result.data(), data(), storage_->bytes());
  return result;
}

Tensor Tensor::to(DeviceType target) const {
  return target == device() ? *this : from_values(values(), sizes_, target);
}

DeviceType common_device(std::initializer_list<const Tensor*> tensors) {
  const DeviceType first = (*tensors.begin())->device();
  for (const Tensor* tensor : tensors) {
    TORCH_CHECK(
        tensor->device() == first,
        std::string("Expected all tensors to be on the same device, but found ") + c10::device_name(first) + " and " +
            c10::device_name(tensor->device()));
  }
  return first;
}

void check_matrix_product(const Tensor& left, const Tensor& right) {
  TORCH_CHECK(
      left.dim() == 2 && right.dim() == 2 && left.sizes()[1] == right.sizes()[0],
      "Shapes " + shape_text(left) + " and " + shape_text(right) + " cannot be multiplied as matrices");
}

void check_elementwise(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(
      self.sizes() == other.sizes() || other.numel() == 1,
      "Shapes " + shape_text(self) + " and " + shape_text(other) + " do not match");
}

void check_attention(const Tensor& query, const Tensor& key, const Tensor& value) {
  TORCH_CHECK(
      query.dim() == 2 && key.dim() == 2 && value.dim() == 2 && query.sizes()[1] == key.sizes()[1] &&
          key.sizes()[0] == value.sizes()[0] && key.sizes()[0] > 0,
      "Attention needs query (n, d), key (m, d) and value (m, e), not " + shape_text(query) + ", " + shape_text(key) +
          " and " + shape_text(value));
}

} // namespace at
