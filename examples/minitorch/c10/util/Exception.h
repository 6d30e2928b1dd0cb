#pragma once

#include <c10/macros/Export.h>

#include <stdexcept>
#include <string>

namespace c10 {

// Exported as a whole, so that it can be caught in a library other than the one that throws it.
class C10_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, const char* file = "");
  ~Error() override;

  /// The source file of the check that failed.
  const char* file() const noexcept {
    return file_;
  }

 private:
  const char* file_;
};

} // namespace c10

#define TORCH_CHECK(condition, message)      \
  do {                                       \
    if (!(condition)) {                      \
      throw ::c10::Error(message, __FILE__); \
    }                                        \
  } while (false)
