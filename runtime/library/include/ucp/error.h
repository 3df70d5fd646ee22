// The error that calls of this library throw: a kind, and one sentence, the same that the programs print. They throw
// nothing else but std::bad_alloc.
#pragma once

#include <stdexcept>
#include <string>

#ifdef _GLIBCXX_DEBUG
#error "ucp's library has std::vector and std::map of the usual size, which -D_GLIBCXX_DEBUG makes another"
#endif

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

enum class ErrorKind {
  kUsage,        // The call makes no sense, or not for this checkpoint.
  kSpec,         // The spec is wrong; its diagnostics are in the text, behind the sentence.
  kBadData,      // A file of the checkpoint is corrupt, incomplete or contradicts another one.
  kUnsupported,  // The checkpoint or the target is understood, and not served.
  kIo,           // The operating system refused, or another rank is gone.
  kCancelled,    // `cancelled` was raised.
  kMemory,       // There is not enough memory for it, on this rank or another one.
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& sentence);
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;

  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace v0
}  // namespace ucp
