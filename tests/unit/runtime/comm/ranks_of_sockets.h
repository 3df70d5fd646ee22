// Ranks that are threads of a test and speak over sockets.
#pragma once

#include <functional>

#include "runtime/comm/socket_ranks.h"

namespace ucp {

// Runs `work` on `size` ranks at the same time, and returns when all have ended. They end with a common call.
void OnSocketRanks(int size, const std::function<void(SocketRanks&)>& work);

}  // namespace ucp
