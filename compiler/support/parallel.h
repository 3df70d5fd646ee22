// Independent pieces of work, spread over threads, with an outcome that does not depend on their timing.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>

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

// The same for the items [first, items), but a raised `pause`, or options.cancelled, only stops the handing out. The
// result is the item to go on with: all before it are done, and none of the others was begun.
llvm::Expected<std::uint64_t> ForEachUntilPaused(
    std::uint64_t first, std::uint64_t items, const ParallelOptions& options, const std::atomic<bool>& pause,
    llvm::function_ref<llvm::Error(unsigned thread, std::uint64_t item)> work);

// Which item is begun as the `number`th if `stretches` threads share a list of items, each going through a stretch of
// its own: neighbours in the list, such as parts of one file, are then seldom in work at the same time. A file system
// lets only one thread at a time write to a file.
std::uint64_t InStretches(std::uint64_t number, std::uint64_t items, std::uint64_t stretches);

}  // namespace ucp
