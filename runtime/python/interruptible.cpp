#include "runtime/python/interruptible.h"

#include <chrono>
#include <future>

#include "runtime/python/raise.h"

namespace nb = nanobind;

namespace ucp {

void RunInterruptibly(llvm::function_ref<llvm::Error(const std::atomic<bool>& cancelled)> work) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
  std::atomic<bool> cancelled = false;
  std::future<llvm::Error> outcome = std::async(std::launch::async, [&] { return work(cancelled); });
  bool was_interrupted = false;
  auto ends_within = [&](std::chrono::milliseconds time) {
    nb::gil_scoped_release release;
    return outcome.wait_for(time) == std::future_status::ready;
  };
  while (!ends_within(kBetweenLooks)) {
    if (was_interrupted || PyErr_CheckSignals() == 0) continue;
    was_interrupted = true;
    // The exception waits in Python's own state, which the work below must not see.
    nb::python_error interruption;
    cancelled = true;
    {
      nb::gil_scoped_release release;
      llvm::consumeError(outcome.get());
    }
    throw interruption;
  }
  Raise(outcome.get());
}

}  // namespace ucp
