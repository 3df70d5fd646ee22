#include "compiler/support/peak_memory.h"

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace ucp {
namespace {

std::uint64_t StatusBytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream number(line.substr(key.size()));
    std::uint64_t kibibytes = 0;
    number >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t PeakMemoryBytes() { return StatusBytes("VmHWM:"); }

std::uint64_t ResidentMemoryBytes() { return StatusBytes("VmRSS:"); }

}  // namespace ucp
