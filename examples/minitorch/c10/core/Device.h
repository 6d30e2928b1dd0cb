#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace c10 {

enum class DeviceType { CPU, CUDA };

inline constexpr int device_type_count = 2;

/// "cpu" or "cuda".
C10_API const char* device_name(DeviceType device);

/// The device that a name means; throws Error for any other name.
C10_API DeviceType parse_device(const std::string& name);

} // namespace c10
