#include <c10/util/Exception.h>

namespace c10 {

Error::Error(const std::string& message, const char* file) : std::runtime_error(message), file_(file) {}

Error::~Error() = default;

} // namespace c10
