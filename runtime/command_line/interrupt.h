// Ctrl-C, SIGTERM and SIGHUP ask a conversion to stop cleanly; a second one stops the process at once. A signal that
// was ignored when the program began, as SIGHUP is under nohup, stays ignored.
#pragma once

#include <atomic>

namespace ucp {

// Installs the handlers, and returns the flag that they set.
const std::atomic<bool>& WatchForInterrupts();

// From now on a process that was asked to stop ends 20 seconds later, whatever it waits for: another rank that does not
// answer would be waited for without end. Progress is mostly kept by then, and if not, any kill is safe.
void EndSomeTimeAfterInterrupt();

// Stops heeding interrupts: only the cleaning up is left.
void EndInItsOwnTime();

}  // namespace ucp
