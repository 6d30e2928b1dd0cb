#include <ATen/Functions.h>

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <string>

namespace at {
namespace {

const KernelTable cpu_table = cpu_kernels();
std::array<std::atomic<const KernelTable*>, c10::device_type_count> tables{&cpu_table, nullptr};

} // namespace

void register_kernels(DeviceType device, const KernelTable* kernels) {
  tables[static_cast<std::size_t>(device)] = kernels;
}

const KernelTable& kernels_for(DeviceType device) {
  const KernelTable* kernels = tables[static_cast<std::size_t>(device)];
  TORCH_CHECK(kernels, std::string("Torch not compiled with kernels for ") + c10::device_name(device));
  return *kernels;
}

} // namespace at
