// The one error class of this project: a code, chosen by the possible reaction of a caller, and a message.
//
// "The world went wrong" (a file, a corrupt byte, a full disk) and "the request is wrong" travel as llvm::Error and
// llvm::Expected. Each level on the way up adds one phrase with AddContext(). Mistakes in a spec are diagnostics
// instead (compiler/diagnostics), and our own mistakes stop the program (check.h).
//
// LLVM's release build never reports an unchecked Error, so every function that returns one is [[nodiscard]].
#pragma once

#include <fmt/format.h>
#include <llvm/Support/Error.h>

#include <string>
#include <utility>

namespace ucp {

enum class ErrorCode {
  kUsage,        // The command line or the request makes no sense: exit code 1.
  kSpec,         // The spec is wrong, and diagnostics were printed: exit code 1.
  kBadData,      // A source file is corrupt, hostile, incomplete or contradicts another one: exit code 2.
  kUnsupported,  // The source or the target is understood, and not served: exit code 2.
  kIo,           // The operating system refused: exit code 2.
  kMemory,       // It refused memory: exit code 1, since another limit or fewer threads mend it.
  kCancelled,    // The user pressed Ctrl-C or sent SIGTERM: exit code 130.
};

// Returns the programs' exit code for an error of this kind (docs/programs.md lists them).
int ExitCode(ErrorCode code);

// "bad-data": the name of this kind in JSON and in Python.
const char* CodeName(ErrorCode code);

class Failure : public llvm::ErrorInfo<Failure> {
 public:
  static char ID;  // NOLINT(readability-identifier-naming): the name LLVM's ErrorInfo asks for.

  Failure(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& text() const { return message_; }

  void log(llvm::raw_ostream& out) const override;
  std::error_code convertToErrorCode() const override;

 private:
  ErrorCode code_;
  std::string message_;
};

[[nodiscard]] llvm::Error MakeError(ErrorCode code, std::string message);

// Fail(ErrorCode::kBadData, "`{}` ends at byte {}", path, size)
template <typename... Args>
[[nodiscard]] llvm::Error Fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(code, fmt::format(format, std::forward<Args>(args)...));
}

// Puts "<phrase>: " before the message and keeps the code. Success passes through.
[[nodiscard]] llvm::Error AddContext(llvm::Error error, const std::string& phrase);

// Takes the error apart. Call with an error that is set.
struct FailureText {
  ErrorCode code;
  std::string message;
};
FailureText TakeFailure(llvm::Error error);

}  // namespace ucp

// Returns the error of an llvm::Error expression, if it is set.
#define UCP_RETURN_IF_ERROR(expression)                         \
  do {                                                          \
    if (llvm::Error ucp_error = (expression)) return ucp_error; \
  } while (false)

#define UCP_JOIN_INNER(a, b) a##b
#define UCP_JOIN(a, b) UCP_JOIN_INNER(a, b)

// UCP_ASSIGN_OR_RETURN(auto bytes, ReadFile(path)): declares or assigns, or returns the error.
#define UCP_ASSIGN_OR_RETURN(target, expression) \
  UCP_ASSIGN_OR_RETURN_INNER(UCP_JOIN(ucp_expected_, __LINE__), target, expression)
#define UCP_ASSIGN_OR_RETURN_INNER(temporary, target, expression) \
  auto temporary = (expression);                                  \
  if (!temporary) return temporary.takeError();                   \
  target = std::move(*temporary)
