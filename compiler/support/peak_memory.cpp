#include "compiler/support/peak_memory.h"

#include <fstream>
#include <sstream>
#include <string>

namespace ucp {

std::uint64_t PeakMemoryBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    std::istringstream number(line.substr(6));
    std::uint64_t kibibytes = 0;
    number >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace ucp
