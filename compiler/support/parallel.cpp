#include "compiler/support/parallel.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/out_of_memory.h"

namespace ucp {
namespace {

using Work = llvm::function_ref<llvm::Error(unsigned, std::uint64_t)>;

// A stretch while several threads take from it.
struct SharedStretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::atomic<std::uint64_t> next;  // Beyond `end` after it was asked for more.
};

class Crew {
 public:
  // `pause` may be null.
  Crew(const std::vector<WorkStretch>& stretches, const ParallelOptions& options, const std::atomic<bool>* pause,
       Work work)
      : options_(options), pause_(pause), work_(work), stretches_(stretches.size()) {
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      stretches_[i].begin = stretches[i].begin;
      stretches_[i].end = stretches[i].end;
      stretches_[i].next = stretches[i].next;
      items_ += stretches[i].end - stretches[i].next;
    }
  }

  void Run() {
    std::vector<std::jthread> others;
    const auto threads = std::min<std::uint64_t>(std::max(options_.threads, 1U), items_);
    for (unsigned thread = 1; thread < threads; ++thread) {
      try {
        others.emplace_back([this, thread, interrupted = HeededInterrupts()] {
          HeedInterrupts(interrupted);
          WorkUntilDone(thread);
        });
      } catch (const std::exception&) {
        break;  // The system has no more threads to give, or no memory for one; those that are there do the work.
      }
    }
    WorkUntilDone(0);
  }

  llvm::Error Failure() {
    if (failed_turn_ == kNone) return llvm::Error::success();
    return failure_ ? MakeError(failure_->code, failure_->message) : OutOfMemory();
  }

  // After a run without a failure: what was handed out is finished.
  std::uint64_t Next(std::size_t stretch) const {
    return std::min(stretches_[stretch].next.load(), stretches_[stretch].end);
  }

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  struct Item {
    std::uint64_t number;
    std::uint64_t turn;  // Of two that fail, the one with the earlier turn is reported.
  };

  static bool IsRaised(const std::atomic<bool>* flag) {
    return flag != nullptr && flag->load(std::memory_order_relaxed);
  }

  void WorkUntilDone(unsigned thread) {
    while (!IsRaised(options_.cancelled) && !IsRaised(pause_)) {
      const std::optional<Item> item = Take(thread);
      if (!item) return;
      WorkOn(thread, *item);
    }
  }

  // From the thread's own stretch, or else from the next one that has something. After a failure all items of earlier
  // turns are still handed out, since one of them may also fail.
  std::optional<Item> Take(unsigned thread) {
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
      const std::size_t number = (thread + i) % stretches_.size();
      SharedStretch& stretch = stretches_[number];
      if (stretch.next.load(std::memory_order_relaxed) >= stretch.end) continue;
      const std::uint64_t item = stretch.next.fetch_add(1, std::memory_order_relaxed);
      const std::uint64_t turn = (item - stretch.begin) * stretches_.size() + number;
      if (item < stretch.end && turn < failed_turn_.load(std::memory_order_relaxed)) return Item{item, turn};
    }
    return std::nullopt;
  }

  // An exception must not leave a thread, and who has no memory cannot make an error of it.
  void WorkOn(unsigned thread, const Item& item) {
    try {
      if (llvm::Error error = work_(thread, item.number)) Keep(item.turn, TakeFailure(std::move(error)));
    } catch (const std::bad_alloc&) {
      Keep(item.turn, std::nullopt);
    }
  }

  // No text: there was no memory.
  void Keep(std::uint64_t turn, std::optional<FailureText> failure) {
    std::lock_guard lock(mutex_);
    if (failed_turn_ < turn) return;
    failure_ = std::move(failure);
    failed_turn_ = turn;
  }

  const ParallelOptions& options_;
  const std::atomic<bool>* pause_;
  Work work_;
  std::vector<SharedStretch> stretches_;
  std::uint64_t items_ = 0;

  std::mutex mutex_;  // Protects writing to the two below.
  std::optional<FailureText> failure_;
  std::atomic<std::uint64_t> failed_turn_ = kNone;
};

llvm::Error RunAll(std::uint64_t items, unsigned stretches, const ParallelOptions& options, Work work) {
  if (items == 0) return llvm::Error::success();
  std::vector<WorkStretch> list = CutIntoStretches(items, stretches);
  Crew crew(list, options, nullptr, work);
  crew.Run();
  UCP_RETURN_IF_ERROR(crew.Failure());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (crew.Next(i) < list[i].end) return Fail(ErrorCode::kCancelled, "interrupted");
  }
  return llvm::Error::success();
}

}  // namespace

std::vector<WorkStretch> CutIntoStretches(std::uint64_t items, unsigned threads) {
  const std::uint64_t count = std::max(threads, 1U);
  std::vector<WorkStretch> stretches;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t begin = i * (items / count) + std::min(i, items % count);
    stretches.push_back({begin, begin + items / count + (i < items % count ? 1 : 0), begin});
  }
  return stretches;
}

llvm::Error ForEachInParallel(std::uint64_t items, const ParallelOptions& options, Work work) {
  return RunAll(items, 1, options, work);
}

llvm::Error ForEachInStretches(std::uint64_t items, const ParallelOptions& options, Work work) {
  return RunAll(items, options.threads, options, work);
}

llvm::Error ForEachUntilPaused(std::vector<WorkStretch>& stretches, const ParallelOptions& options,
                               const std::atomic<bool>& pause, Work work) {
  Crew crew(stretches, options, &pause, work);
  crew.Run();
  UCP_RETURN_IF_ERROR(crew.Failure());
  for (std::size_t i = 0; i < stretches.size(); ++i) stretches[i].next = crew.Next(i);
  return llvm::Error::success();
}

}  // namespace ucp
