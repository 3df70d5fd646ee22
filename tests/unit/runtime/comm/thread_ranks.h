// Ranks that are threads of a test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace ucp {

// Runs `work` on `size` ranks at the same time, and returns when all have ended. A rank that waits for one that has
// ended gets an error (kIo) that names it.
void OnRanks(int size, const std::function<void(Communicator&)>& work);

}  // namespace ucp
