// Ctrl-C, SIGTERM and SIGHUP ask a conversion to stop cleanly; a second Ctrl-C stops the process at once.
#pragma once

#include <atomic>

namespace ucp {

// Installs the handlers, once, and returns what they set.
const std::atomic<bool>& WatchForInterrupts();

}  // namespace ucp
