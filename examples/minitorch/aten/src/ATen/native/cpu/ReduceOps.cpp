#include <ATen/Functions.h>
#include <c10/util/Exception.h>

namespace at::native::cpu {

Tensor sum(const Tensor& self) {
  TORCH_CHECK(self.device() == c10::DeviceType::CPU, "this kernel is the CPU's");
  double total = 0.0;
  for (std::int64_t i = 0; i < self.numel(); ++i) {
    total += self.data()[i];
  }
  return Tensor::from_values({static_cast<float>(total)}, {}, DeviceType::CPU);
}

} // namespace at::native::cpu
