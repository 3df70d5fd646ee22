// LLVM is built without exceptions: it ends the process where it has no memory, unless a handler is set. And its hash
// tables (llvm::json::Object is one) are broken when an exception leaves them while they grow, so that unwinding
// crashes. They get their memory here, as a last resort what was put aside for them.
#include "compiler/support/out_of_memory.h"

#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/MemAlloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "compiler/support/error.h"

namespace ucp {
namespace {

void Throw(void*, const char*, bool) { throw std::bad_alloc(); }

[[maybe_unused]] const bool llvm_throws = [] {
  llvm::install_bad_alloc_error_handler(Throw);
  return true;
}();

constexpr std::size_t kReserveBytes = std::size_t{256} << 10;
std::atomic<void*> reserve = std::malloc(kReserveBytes);
void (*end_program)() = nullptr;

void* Aligned(std::size_t bytes, std::size_t alignment) {
  void* memory = nullptr;
  const bool is_given = ::posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) == 0;
  return is_given ? memory : nullptr;
}

}  // namespace

void EndWhereNothingMayBeThrown(void (*end)()) { end_program = end; }

llvm::Error OutOfMemory() { return MakeError(ErrorCode::kMemory, std::string(kOutOfMemory)); }

llvm::Error WithinMemory(llvm::function_ref<llvm::Error()> work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace ucp

// LLVM's own two functions of this name are not linked where these are.
void* llvm::allocate_buffer(std::size_t bytes, std::size_t alignment) {
  void* memory = ucp::Aligned(bytes, alignment);
  if (memory == nullptr) {
    std::free(ucp::reserve.exchange(nullptr));
    memory = ucp::Aligned(bytes, alignment);
  }
  if (memory == nullptr && ucp::end_program != nullptr) ucp::end_program();
  if (memory == nullptr) throw std::bad_alloc();  // The tables of a library's caller mostly hold plain numbers.
  return memory;
}

void llvm::deallocate_buffer(void* memory, std::size_t, std::size_t) { std::free(memory); }
