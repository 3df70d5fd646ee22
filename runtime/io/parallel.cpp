#include "runtime/io/parallel.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using Work = llvm::function_ref<llvm::Error(unsigned, std::uint64_t)>;

class Crew {
 public:
  Crew(std::uint64_t items, const ParallelOptions& options, Work work)
      : items_(items), options_(options), work_(work) {}

  void WorkUntilDone(unsigned thread) {
    while (!stop_.load(std::memory_order_relaxed)) {
      if (options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed)) {
        stop_.store(true, std::memory_order_relaxed);
        return;
      }
      std::uint64_t item = next_.fetch_add(1, std::memory_order_relaxed);
      if (item >= items_) return;
      if (llvm::Error error = WorkOn(thread, item)) Keep(item, std::move(error));
      done_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  llvm::Error Outcome() {
    if (failure_) return MakeError(failure_->code, failure_->message);
    if (done_.load() < items_) return Fail(ErrorCode::kCancelled, "cancelled");
    return llvm::Error::success();
  }

 private:
  // An exception must not leave a thread.
  llvm::Error WorkOn(unsigned thread, std::uint64_t item) {
    try {
      return work_(thread, item);
    } catch (const std::bad_alloc&) {
      return Fail(ErrorCode::kIo, "there is not enough memory; lower --threads or --memory");
    }
  }

  void Keep(std::uint64_t item, llvm::Error error) {
    stop_.store(true, std::memory_order_relaxed);
    FailureText failure = Describe(std::move(error));
    std::lock_guard lock(mutex_);
    if (failure_ && failed_item_ < item) return;
    failure_ = std::move(failure);
    failed_item_ = item;
  }

  const std::uint64_t items_;
  const ParallelOptions& options_;
  Work work_;
  std::atomic<std::uint64_t> next_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<bool> stop_ = false;

  std::mutex mutex_;  // Protects the two below.
  std::optional<FailureText> failure_;
  std::uint64_t failed_item_ = 0;
};

}  // namespace

llvm::Error ForEachInParallel(std::uint64_t items, const ParallelOptions& options, Work work) {
  if (items == 0) return llvm::Error::success();
  Crew crew(items, options, work);
  {
    std::vector<std::jthread> others;
    std::uint64_t threads = std::min<std::uint64_t>(std::max(options.threads, 1U), items);
    for (unsigned thread = 1; thread < threads; ++thread) {
      try {
        others.emplace_back([&crew, thread] { crew.WorkUntilDone(thread); });
      } catch (const std::system_error&) {
        break;  // The system has no more threads to give; those that are there do the work.
      }
    }
    crew.WorkUntilDone(0);
  }
  return crew.Outcome();
}

std::uint64_t InStretches(std::uint64_t number, std::uint64_t items, std::uint64_t stretches) {
  std::uint64_t stretch = number % stretches;
  std::uint64_t longer_ones = std::min(stretch, items % stretches);  // Before this one, by an item each.
  return stretch * (items / stretches) + longer_ones + number / stretches;
}

}  // namespace ucp
