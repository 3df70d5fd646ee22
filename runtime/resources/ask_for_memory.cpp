#include "runtime/resources/ask_for_memory.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <latch>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

using Memory = std::unique_ptr<std::byte[]>;

// Untouched: the system is asked, and gives nothing yet. Null if it refuses.
Memory Take(std::uint64_t bytes) { return Memory(new (std::nothrow) std::byte[bytes]); }

// One allocation of each of the allocator's kinds, whose arenas a thread has for itself.
bool TakeAsThread(std::latch& all_have_taken) {
  constexpr std::size_t kKiB = 1024;
  const std::array taken = {Take(64), Take(4 * kKiB), Take(64 * kKiB), Take(512 * kKiB)};
  all_have_taken.arrive_and_wait();
  for (const Memory& one : taken) {
    if (one == nullptr) return false;
  }
  return true;
}

// As many threads as will work, at the same time. Where the system has no more threads, fewer will do the work.
bool AllThreadsCanTake(unsigned threads) {
  std::latch all_have_taken(threads);
  std::atomic<bool> have_taken = true;
  auto take = [&] {
    if (!TakeAsThread(all_have_taken)) have_taken = false;
  };
  std::vector<std::jthread> others;
  others.reserve(threads);
  for (unsigned thread = 1; thread < threads; ++thread) {
    try {
      others.emplace_back(take);
    } catch (const std::exception&) {
      all_have_taken.count_down();
    }
  }
  take();
  others.clear();
  return have_taken;
}

}  // namespace

llvm::Error AskForMemory(std::uint64_t bytes, unsigned threads) {
  const Memory shared = Take(bytes);
  if (shared != nullptr && AllThreadsCanTake(threads)) return llvm::Error::success();
  return Fail(
      ErrorCode::kMemory,
      "there is not enough memory: this run with {} takes up to {} more, and the system does not give it; lower "
      "{} or {}, or raise its limit (`ulimit -v`)",
      Counted(threads, "thread"), HumanBytes(bytes), OptionName(UserOption::kThreads), OptionName(UserOption::kMemory));
}

}  // namespace ucp
