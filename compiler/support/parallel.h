// Independent pieces of work, spread over threads, with an outcome that does not depend on their timing.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace ucp {

struct ParallelOptions {
  unsigned threads = 1;
  const std::atomic<bool>* cancelled = nullptr;  // Looked at before each item.
};

// Calls `work(thread, item)` once for each item in [0, items); `thread` is below options.threads, and one thread makes
// one call at a time. Items are handed out in order. After an error no further items are handed out, and those in
// progress are finished; because all items before a failed one were handed out before it, the error that is returned is
// always that of the first item that fails, however the threads ran. A raised `cancelled` is the error kCancelled. All
// threads heed the interrupts that the caller's does (interruption.h).
[[nodiscard]] llvm::Error ForEachInParallel(std::uint64_t items, const ParallelOptions& options,
                                            llvm::function_ref<llvm::Error(unsigned thread, std::uint64_t item)> work);

// A part of a list of items that a thread goes through from its beginning.
struct WorkStretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t next = 0;  // The items before this one are done, and none of the others was begun.
};

// Returns the items [0, items) as one stretch for each of `threads`, one after another, of equal lengths or nearly.
std::vector<WorkStretch> CutIntoStretches(std::uint64_t items, unsigned threads);

// ForEachInParallel() for lists whose neighbours, such as parts of one file, had better not be in work at the same
// time: a file system lets only one thread at a time write to a file. Each thread goes through a stretch of its own,
// and helps with another one only when it is done with it. The first item is here the one that is nearest to the
// beginning of its stretch, and among equals that of the earliest stretch.
[[nodiscard]] llvm::Error ForEachInStretches(std::uint64_t items, const ParallelOptions& options,
                                             llvm::function_ref<llvm::Error(unsigned thread, std::uint64_t item)> work);

// Does the same for the rest of these stretches, but a raised `pause`, or options.cancelled, only stops the handing
// out: call it again to go on. After an error the stretches are as they were.
[[nodiscard]] llvm::Error ForEachUntilPaused(std::vector<WorkStretch>& stretches, const ParallelOptions& options,
                                             const std::atomic<bool>& pause,
                                             llvm::function_ref<llvm::Error(unsigned thread, std::uint64_t item)> work);

}  // namespace ucp
