#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace c10 {

/// Base of objects that carry their own reference count.
class intrusive_ptr_target {
 public:
  intrusive_ptr_target() = default;
  intrusive_ptr_target(const intrusive_ptr_target&) = delete;
  intrusive_ptr_target& operator=(const intrusive_ptr_target&) = delete;

 protected:
  ~intrusive_ptr_target() = default;

 private:
  template <class T>
  friend class intrusive_ptr;

  std::atomic<std::uint32_t> references_{0};
};

/// Shares ownership of a T, which derives from intrusive_ptr_target; the last owner deletes it.
template <class T>
class intrusive_ptr {
 public:
  explicit intrusive_ptr(T* target) noexcept : target_(target) {
    retain();
  }
  intrusive_ptr(const intrusive_ptr& other) noexcept : target_(other.target_) {
    retain();
  }
  intrusive_ptr(intrusive_ptr&& other) noexcept : target_(std::exchange(other.target_, nullptr)) {}
  intrusive_ptr& operator=(intrusive_ptr other) noexcept {
    std::swap(target_, other.target_);
    return *this;
  }
  ~intrusive_ptr() {
    release();
  }

  T* operator->() const noexcept {
    return target_;
  }
  std::uint32_t use_count() const noexcept {
    return target_ ? target_->references_.load(std::memory_order_relaxed) : 0;
  }

 private:
  void retain() noexcept {
    if (target_) {
      target_->references_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void release() noexcept {
    if (target_ && target_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete target_;
    }
  }

  T* target_;
};

} // namespace c10
