#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace c10 {

/// One number, as it came from the caller.
class Scalar {
 public:
  Scalar(double value) : type_(ScalarType::Double), double_(value) {}
  Scalar(std::int64_t value) : type_(ScalarType::Long), long_(value) {}

  ScalarType type() const {
    return type_;
  }
  float to_float() const {
    return type_ == ScalarType::Double ? static_cast<float>(double_) : static_cast<float>(long_);
  }

 private:
  ScalarType type_;
  union {
    double double_;
    std::int64_t long_;
  };
};

} // namespace c10
