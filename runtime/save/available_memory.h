// How much memory a process can still take before the system ends processes for want of it.
#pragma once

#include <cstdint>
#include <string>

namespace ucp {

// The least of the machine's available memory and of what the limits of this process's control groups (versions 1 and
// 2) leave; memory of the page cache that can be given back counts as available. `root` is the root of the file system,
// for tests. Nothing known: the largest number.
std::uint64_t AvailableMemory(const std::string& root = "");

}  // namespace ucp
