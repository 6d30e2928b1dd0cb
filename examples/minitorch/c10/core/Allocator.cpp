#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cstring>
#include <new>

namespace c10 {
namespace {

class HostAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    return ::operator new(bytes);
  }
  void deallocate(void* data) noexcept override {
    ::operator delete(data);
  }
  void copy_from_host(void* destination, const void* source, std::size_t bytes) override {
    std::memcpy(destination, source, bytes);
  }
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override {
    std::memcpy(destination, source, bytes);
  }
};

HostAllocator host_allocator;
std::array<std::atomic<Allocator*>, device_type_count> allocators{&host_allocator, nullptr};

} // namespace

void set_allocator(DeviceType device, Allocator* allocator) {
  allocators[static_cast<std::size_t>(device)] = allocator;
}

Allocator& get_allocator(DeviceType device) {
  Allocator* allocator = allocators[static_cast<std::size_t>(device)];
  TORCH_CHECK(allocator, std::string("Torch not compiled with support for ") + device_name(device));
  return *allocator;
}

} // namespace c10
