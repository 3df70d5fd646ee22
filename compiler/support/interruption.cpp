#include "compiler/support/interruption.h"

#include "compiler/support/error.h"

namespace ucp {
namespace {

thread_local const std::atomic<bool>* interrupted_flag = nullptr;

}  // namespace

void HeedInterrupts(const std::atomic<bool>* interrupted) { interrupted_flag = interrupted; }

const std::atomic<bool>* HeededInterrupts() { return interrupted_flag; }

llvm::Error CheckInterrupted() {
  if (interrupted_flag == nullptr || !*interrupted_flag) return llvm::Error::success();
  return Fail(ErrorCode::kCancelled, "interrupted");
}

}  // namespace ucp
