#include "compiler/support/error.h"

#include <memory>
#include <system_error>

#include "compiler/support/check.h"

namespace ucp {

char Failure::ID = 0;

int ExitCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
    case ErrorCode::kSpec:
    case ErrorCode::kMemory:
      return 1;
    case ErrorCode::kBadData:
    case ErrorCode::kUnsupported:
    case ErrorCode::kIo:
      return 2;
    case ErrorCode::kCancelled:
      return 130;
  }
  UCP_UNREACHABLE();
}

const char* CodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kSpec:
      return "spec";
    case ErrorCode::kBadData:
      return "bad-data";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kMemory:
      return "memory";
    case ErrorCode::kCancelled:
      return "cancelled";
  }
  return "";
}

void Failure::log(llvm::raw_ostream& out) const { out << message_; }

std::error_code Failure::convertToErrorCode() const { return llvm::inconvertibleErrorCode(); }

llvm::Error MakeError(ErrorCode code, std::string message) {
  return llvm::make_error<Failure>(code, std::move(message));
}

llvm::Error AddContext(llvm::Error error, const std::string& phrase) {
  if (!error) return error;
  FailureText failure = TakeFailure(std::move(error));
  return MakeError(failure.code, phrase + ": " + failure.message);
}

FailureText TakeFailure(llvm::Error error) {
  UCP_CHECK(static_cast<bool>(error), "TakeFailure() needs an error that is set");
  FailureText result{ErrorCode::kIo, ""};
  llvm::handleAllErrors(
      std::move(error), [&](const Failure& failure) { result = {failure.code(), failure.text()}; },
      [&](const llvm::ErrorInfoBase& other) { result.message = other.message(); });
  return result;
}

}  // namespace ucp
