// The library is somebody else's program: a failed allocation is an exception there, never the end of the process, and
// the next call works. The operator new of this program is everybody's in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>
#include <string>

#include "tests/unit/runtime/library/thrown.h"
#include "ucp/load.h"

namespace {

constexpr long kNever = std::numeric_limits<long>::max();
std::atomic<long> left = kNever;  // Allocations until one fails.

// Null if it fails.
void* Tried(std::size_t bytes) {
  const bool fails = left != kNever && left.fetch_sub(1) == 1;
  return fails ? nullptr : std::malloc(bytes);
}

void* Given(std::size_t bytes) {
  void* memory = Tried(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return Given(bytes); }
void* operator new[](std::size_t bytes) { return Given(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return Tried(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return Tried(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace ucp {
namespace {

struct Trial {
  long allocations = 0;
  bool has_failed = false;
};

// `work` with its N-th allocation failing.
Trial TryWith(long failing, const std::function<void()>& work) {
  Trial tried;
  left = failing;
  try {
    work();
  } catch (const std::bad_alloc&) {
    tried.has_failed = true;
  } catch (const Error& error) {
    tried.has_failed = true;
    left = kNever;
    EXPECT_EQ(error.kind(), ErrorKind::kMemory) << error.what();
  }
  tried.allocations = failing - left.exchange(kNever);
  return tried;
}

// A sample, and all for UCP_CALLS=all.
void TrySome(const std::function<void()>& work) {
  work();  // So things that are made once, such as a list of formats, are there.
  const long all = TryWith(std::numeric_limits<long>::max() / 2, work).allocations;
  ASSERT_GT(all, 1000);
  const char* calls = std::getenv("UCP_CALLS");
  const long step = calls != nullptr && calls == std::string("all") ? 1 : std::max(1L, all / 150);
  long failures = 0;
  for (long failing = 1; failing <= all; failing += step) failures += TryWith(failing, work).has_failed ? 1 : 0;
  EXPECT_GT(failures, all / step / 2);
  work();
}

TEST(FailingAllocationsTest, AreThrown) {
  const LoadSource source = Fixture("zero1_dp4");
  TrySome([&] { ShardLoad(source, "deepspeed:dp=3,zero=1", {.rank = 1}, {.verify = true, .threads = 2}).Fill(); });
}

TEST(FailingAllocationsTest, AreThrownWithASpecAndAConfiguration) {
  LoadSource source = Fixture("autotp_tp2_dp2");
  source.spec = "llama";
  source.sets = {"layers=2", "heads=8", "kv_heads=4", "ffn=26"};
  TrySome([&] { ShardLoad(source, "universal", {}, {.threads = 1}).Fill(); });
}

}  // namespace
}  // namespace ucp
