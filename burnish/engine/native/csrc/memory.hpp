// Large zeroed memory straight from the system, in huge pages where it has them; touched only as far as used.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace burnish {

class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    madvise(at, bytes, MADV_HUGEPAGE);
    at_ = static_cast<char*>(at);
  }
  ~Memory() {
    if (at_ != nullptr) munmap(at_, bytes_);
  }
  Memory(Memory&& other) noexcept : at_(other.at_), bytes_(other.bytes_) { other.at_ = nullptr; }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  template <class T = char>
  T* as() const { return reinterpret_cast<T*>(at_); }
  size_t bytes() const { return bytes_; }

  // Make room for so many bytes; what was there is lost.
  void reach(size_t bytes) {
    if (bytes > bytes_) *this = Memory(bytes + bytes / 2);
  }

 private:
  char* at_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace burnish
