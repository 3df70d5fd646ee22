#include "runtime/convert/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "compiler/support/interruption.h"

namespace ucp {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// Only what a signal handler may do. A process that is stopped at once leaves a hidden folder, which the next run to
// the same destination removes.
void OnSignal(int signal) {
  if (interrupted.exchange(true)) _exit(128 + signal);
}

}  // namespace

const std::atomic<bool>& WatchForInterrupts() {
  struct sigaction action{};
  action.sa_handler = OnSignal;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  HeedInterrupts(&interrupted);
  return interrupted;
}

}  // namespace ucp
