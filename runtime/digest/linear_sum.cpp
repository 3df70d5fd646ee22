// The bytes are 32-bit little-endian words; word n counts w * T[l][n % 256] * R[l](n / 256) in each of four lanes l,
// modulo 2^64. A byte counts as its word with zeros for the other three.
#include "runtime/digest/linear_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/digest/unit_keys.h"

namespace ucp {
namespace {

constexpr std::size_t kWordBytes = 4;
constexpr std::size_t kBlockWords = 256;

using WordKeys = std::array<std::array<std::uint64_t, kBlockWords>, 4>;

constexpr WordKeys MakeWordKeys() {
  WordKeys keys{};
  for (std::size_t lane = 0; lane < keys.size(); ++lane) {
    for (std::size_t word = 0; word < kBlockWords; ++word) {
      keys[lane][word] = (Scramble(lane * kBlockWords + word) >> 32) | 1;
    }
  }
  return keys;
}
constexpr WordKeys kWordKeys = MakeWordKeys();

}  // namespace

void AddLinearly(std::uint64_t place, std::span<const std::byte> bytes, SumLanes& lanes) {
  while (!bytes.empty()) {
    const std::uint64_t block = place / (kWordBytes * kBlockWords);
    const std::uint64_t end = (block + 1) * kWordBytes * kBlockWords;
    SumLanes sums{};
    while (!bytes.empty() && place < end) {
      const std::size_t first = place % kWordBytes;
      const std::size_t count = std::min(kWordBytes - first, bytes.size());
      std::uint32_t word = 0;
      std::memcpy(reinterpret_cast<std::byte*>(&word) + first, bytes.data(), count);
      const std::size_t number = place / kWordBytes % kBlockWords;
      for (std::size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += word * kWordKeys[lane][number];
      bytes = bytes.subspan(count);
      place += count;
    }
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      lanes[lane] += sums[lane] * (Scramble(Scramble(block) + lane + 1024) | 1);
    }
  }
}

}  // namespace ucp
