#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>

namespace c10 {

/// Owns a block of a device's memory.
class Storage final : public intrusive_ptr_target {
 public:
  C10_API Storage(DeviceType device, std::size_t bytes);
  C10_API ~Storage();

  DeviceType device() const {
    return device_;
  }
  std::size_t bytes() const {
    return bytes_;
  }
  void* data() const {
    return data_;
  }

 private:
  DeviceType device_;
  std::size_t bytes_;
  void* data_;
};

} // namespace c10
