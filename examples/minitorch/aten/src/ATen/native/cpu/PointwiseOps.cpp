#include <ATen/Functions.h>
#include <c10/util/Exception.h>

namespace at::native::cpu {
namespace {

template <class Operation>
Tensor elementwise(const Tensor& self, const Tensor& other, Operation operation) {
  check_elementwise(self, other);
  TORCH_CHECK(self.device() == c10::DeviceType::CPU, "this kernel is the CPU's");
  Tensor result = Tensor::empty(self.sizes(), DeviceType::CPU);
  const float* left = self.data();
  const float* right = other.data();
  const std::int64_t right_step = other.numel() == 1 ? 0 : 1;
  float* out = result.data();
  const std::int64_t count = self.numel();
#ifdef _OPENMP
#pragma omp parallel for if (count > 32768)
#endif
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = operation(left[i], right[i * right_step]);
  }
  return result;
}

} // namespace

Tensor fill_(const Tensor& self, const c10::Scalar& value) {
  float* out = self.data();
  for (std::int64_t i = 0; i < self.numel(); ++i) {
    out[i] = value.to_float();
  }
  return self;
}

Tensor add(const Tensor& self, const Tensor& other) {
  return elementwise(self, other, [](float left, float right) { return left + right; });
}

Tensor mul(const Tensor& self, const Tensor& other) {
  return elementwise(self, other, [](float left, float right) { return left * right; });
}

} // namespace at::native::cpu
