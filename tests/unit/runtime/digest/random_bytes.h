// Bytes to add up in tests of digests.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace ucp {

inline std::vector<std::byte> RandomBytes(std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace ucp
