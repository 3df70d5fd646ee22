#include "compiler/support/parallel.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

using Work = llvm::function_ref<llvm::Error(unsigned, std::uint64_t)>;

class Crew {
 public:
  // `pause` may be null.
  Crew(std::uint64_t first, std::uint64_t items, const ParallelOptions& options, const std::atomic<bool>* pause,
       Work work)
      : items_(items), options_(options), pause_(pause), work_(work), next_(first), done_(first) {}

  void Run() {
    std::vector<std::jthread> others;
    std::uint64_t threads = std::min<std::uint64_t>(std::max(options_.threads, 1U), items_ - next_.load());
    for (unsigned thread = 1; thread < threads; ++thread) {
      try {
        others.emplace_back([this, thread, interrupted = HeededInterrupts()] {
          HeedInterrupts(interrupted);
          WorkUntilDone(thread);
        });
      } catch (const std::system_error&) {
        break;  // The system has no more threads to give; those that are there do the work.
      }
    }
    WorkUntilDone(0);
  }

  llvm::Error Failure() { return failure_ ? MakeError(failure_->code, failure_->message) : llvm::Error::success(); }

  // Items are handed out in order, and what was handed out is finished: without a failure all items before this one
  // are done.
  std::uint64_t done() const { return done_; }

 private:
  static bool IsRaised(const std::atomic<bool>* flag) {
    return flag != nullptr && flag->load(std::memory_order_relaxed);
  }

  void WorkUntilDone(unsigned thread) {
    while (!stop_.load(std::memory_order_relaxed)) {
      if (IsRaised(options_.cancelled) || IsRaised(pause_)) {
        stop_.store(true, std::memory_order_relaxed);
        return;
      }
      std::uint64_t item = next_.fetch_add(1, std::memory_order_relaxed);
      if (item >= items_) return;
      if (llvm::Error error = WorkOn(thread, item)) Keep(item, std::move(error));
      done_.fetch_add(1, std::memory_order_relaxed);
    }
  }

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
  const std::atomic<bool>* pause_;
  Work work_;
  std::atomic<std::uint64_t> next_;
  std::atomic<std::uint64_t> done_;
  std::atomic<bool> stop_ = false;

  std::mutex mutex_;  // Protects the two below.
  std::optional<FailureText> failure_;
  std::uint64_t failed_item_ = 0;
};

}  // namespace

llvm::Error ForEachInParallel(std::uint64_t items, const ParallelOptions& options, Work work) {
  if (items == 0) return llvm::Error::success();
  Crew crew(0, items, options, nullptr, work);
  crew.Run();
  UCP_RETURN_IF_ERROR(crew.Failure());
  return crew.done() < items ? Fail(ErrorCode::kCancelled, "interrupted") : llvm::Error::success();
}

llvm::Expected<std::uint64_t> ForEachUntilPaused(std::uint64_t first, std::uint64_t items,
                                                 const ParallelOptions& options, const std::atomic<bool>& pause,
                                                 Work work) {
  if (first >= items) return items;
  Crew crew(first, items, options, &pause, work);
  crew.Run();
  UCP_RETURN_IF_ERROR(crew.Failure());
  return crew.done();
}

std::uint64_t InStretches(std::uint64_t number, std::uint64_t items, std::uint64_t stretches) {
  std::uint64_t stretch = number % stretches;
  std::uint64_t longer_ones = std::min(stretch, items % stretches);  // Before this one, by an item each.
  return stretch * (items / stretches) + longer_ones + number / stretches;
}

}  // namespace ucp
