// Ctrl-C, SIGTERM and SIGHUP ask a conversion to stop cleanly; a second one stops the process at once. What was ignored
// when the program began, as SIGHUP is under nohup, stays ignored.
#pragma once

#include <atomic>

namespace ucp {

// Installs the handlers, once, and returns what they set.
const std::atomic<bool>& WatchForInterrupts();

// From now on a process that was asked to stop ends after these seconds, whatever it waits for: another rank that does
// not answer would be waited for without end. Safe, as any kill is.
void EndAfterInterrupt(unsigned seconds);

}  // namespace ucp
