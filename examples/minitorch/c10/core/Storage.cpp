#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

namespace c10 {

Storage::Storage(DeviceType device, std::size_t bytes)
    : device_(device), bytes_(bytes), data_(get_allocator(device).allocate(bytes)) {}

Storage::~Storage() {
  get_allocator(device_).deallocate(data_);
}

} // namespace c10
