#include <c10/util/Exception.h>

namespace c10 {

Error::Error(const std::string& message) : std::runtime_error(message) {}

Error::~Error() = default;

} // namespace c10
