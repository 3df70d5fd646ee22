// An open file as the operating system counts it, and the messages of its refusals.
#pragma once

#include <llvm/Support/Error.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ucp {

// Closes its descriptor when it goes out of scope; for files that were only read, or were closed before.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// Not inherited by other programs. Nothing is open, and errno says why, where the system refuses.
Descriptor OpenDescriptor(const std::string& path, int flags);

// Repeats a system call that a signal interrupted.
template <typename Call>
auto Uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// "cannot open `/x/y.pt`: no such file or directory"
[[nodiscard]] llvm::Error SystemError(std::string_view action, const std::string& path, int error_number);

// "cannot read `/x/y.pt` at byte 64: input/output error"; kUsage where it is the memory that was given for the bytes.
[[nodiscard]] llvm::Error ReadingError(const std::string& path, std::uint64_t offset, int error_number);

}  // namespace ucp
