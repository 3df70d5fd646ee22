// How much memory this process takes, by the operating system's own count.
#pragma once

#include <cstdint>

namespace ucp {

// Returns the most so far, and now. Code included. 0 where the system does not say.
std::uint64_t PeakMemoryBytes();
std::uint64_t ResidentMemoryBytes();

}  // namespace ucp
