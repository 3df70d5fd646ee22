#include "runtime/python/interruptible.h"

#include <chrono>
#include <csignal>
#include <future>
#include <optional>

#include "compiler/support/interruption.h"
#include "runtime/python/raise.h"

namespace nb = nanobind;

namespace ucp {
namespace {

// While it lives, Ctrl-C ends the process, as it does with a program that has no handler.
class EndingByInterrupt {
 public:
  EndingByInterrupt() {
    struct sigaction ending{};
    ending.sa_handler = SIG_DFL;
    sigaction(SIGINT, &ending, &before_);
  }
  ~EndingByInterrupt() { sigaction(SIGINT, &before_, nullptr); }
  EndingByInterrupt(const EndingByInterrupt&) = delete;
  EndingByInterrupt& operator=(const EndingByInterrupt&) = delete;

 private:
  struct sigaction before_{};
};

class Heeding {
 public:
  explicit Heeding(const std::atomic<bool>& cancelled) { HeedInterrupts(&cancelled); }
  ~Heeding() { HeedInterrupts(nullptr); }
  Heeding(const Heeding&) = delete;
  Heeding& operator=(const Heeding&) = delete;
};

llvm::Error OutcomeOf(std::future<llvm::Error>& work) {
  nb::gil_scoped_release release;
  return work.get();
}

}  // namespace

void RunInterruptibly(llvm::function_ref<llvm::Error(const std::atomic<bool>& cancelled)> work,
                      llvm::function_ref<void()> look) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
  std::atomic<bool> cancelled = false;
  // Where the system has no more threads, on this one, when the outcome is asked for.
  std::future<llvm::Error> outcome = std::async(std::launch::async | std::launch::deferred, [&] {
    const Heeding heeding(cancelled);
    return work(cancelled);
  });
  auto ends_within = [&](std::chrono::milliseconds time) {
    nb::gil_scoped_release release;
    return outcome.wait_for(time) != std::future_status::timeout;
  };
  // The exception does not wait in Python's own state, which the work below must not see.
  auto end_by = [&](nb::python_error& interruption) {
    cancelled = true;
    // The work fills memory that is the caller's, so it cannot be left alone. It ends soon, unless the system keeps it
    // waiting for storage that does not answer.
    std::optional<EndingByInterrupt> again;
    if (interruption.matches(PyExc_KeyboardInterrupt)) again.emplace();
    llvm::consumeError(OutcomeOf(outcome));
    throw interruption;
  };
  while (!ends_within(kBetweenLooks)) {
    if (PyErr_CheckSignals() != 0) {
      nb::python_error interruption;
      end_by(interruption);
    }
    try {
      look();
    } catch (nb::python_error& raised) {
      end_by(raised);
    }
  }
  Raise(OutcomeOf(outcome));
  look();
}

}  // namespace ucp
