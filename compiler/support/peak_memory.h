// How much memory this process has taken at most, by the operating system's own count.
#pragma once

#include <cstdint>

namespace ucp {

// Code included. 0 where the system does not say.
std::uint64_t PeakMemoryBytes();

}  // namespace ucp
