#include <c10/core/Device.h>
#include <c10/util/Exception.h>

namespace c10 {

const char* device_name(DeviceType device) {
  return device == DeviceType::CPU ? "cpu" : "cuda";
}

DeviceType parse_device(const std::string& name) {
  if (name == "cpu") {
    return DeviceType::CPU;
  }
  if (name == "cuda") {
    return DeviceType::CUDA;
  }
  throw Error("Expected 'cpu' or 'cuda' as device, not '" + name + "'");
}

} // namespace c10
