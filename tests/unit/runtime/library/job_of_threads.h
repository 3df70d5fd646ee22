// A job whose ranks are threads, as a caller of the library might have one.
#pragma once

#include <functional>

#include "ucp/ranks.h"

namespace ucp {

// Runs `work` on `size` ranks at the same time, and returns when all have ended.
void RunJob(int size, const std::function<void(Ranks&)>& work);

}  // namespace ucp
