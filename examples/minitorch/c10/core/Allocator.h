#pragma once

#include <c10/core/Device.h>

#include <cstddef>

namespace c10 {

/// Memory of one kind of device, and the way between it and the host's.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data) noexcept = 0;
  virtual void copy_from_host(void* destination, const void* source, std::size_t bytes) = 0;
  virtual void copy_to_host(void* destination, const void* source, std::size_t bytes) = 0;
};

/// Registers the allocator of a device; it must live as long as the process.
C10_API void set_allocator(DeviceType device, Allocator* allocator);

/// Throws Error if this build has none for the device.
C10_API Allocator& get_allocator(DeviceType device);

} // namespace c10
