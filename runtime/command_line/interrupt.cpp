#include "runtime/command_line/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "compiler/support/interruption.h"

namespace ucp {
namespace {

std::atomic<bool> interrupted = false;
std::atomic<bool> waits_for_others = false;
constexpr unsigned kPatienceSeconds = 20;
static_assert(std::atomic<bool>::is_always_lock_free);

// Only what a signal handler may do. A process that is stopped at once leaves a hidden folder, which the next run to
// the same destination removes.
[[noreturn]] void EndAtOnce(std::string_view why) {
  constexpr int kInterrupted = 130;  // As of one that ends in good order.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, why.data(), why.size());
  ::_exit(kInterrupted);
}

void OnSignal(int) {
  if (interrupted.exchange(true)) EndAtOnce("\nstopped at once; no half checkpoint is left\n");
  if (waits_for_others) ::alarm(kPatienceSeconds);
}

void OnAlarm(int) {
  EndAtOnce(
      "\ninterrupted, and not at an end 20 seconds later, as when another rank does not answer; no half "
      "checkpoint is left\n");
}

}  // namespace

const std::atomic<bool>& WatchForInterrupts() {
  struct sigaction action{};
  action.sa_handler = OnSignal;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    const bool is_ignored = sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!is_ignored) sigaction(signal, &action, nullptr);
  }
  HeedInterrupts(&interrupted);
  return interrupted;
}

void EndSomeTimeAfterInterrupt() {
  struct sigaction action{};
  action.sa_handler = OnAlarm;
  sigaction(SIGALRM, &action, nullptr);
  waits_for_others = true;
  if (interrupted) ::alarm(kPatienceSeconds);
}

void EndInItsOwnTime() {
  waits_for_others = false;
  ::alarm(0);
}

}  // namespace ucp
