#pragma once

#include <cstddef>

namespace c10 {

/// Element types. Tensors hold Float; a Scalar may also be a Double or a Long.
enum class ScalarType { Float, Double, Long };

constexpr std::size_t element_size(ScalarType type) {
  return type == ScalarType::Float ? sizeof(float) : 8;
}

/// As Python spells it, without the module: "float32".
constexpr const char* scalar_type_name(ScalarType type) {
  return type == ScalarType::Float ? "float32" : type == ScalarType::Double ? "float64" : "int64";
}

} // namespace c10
