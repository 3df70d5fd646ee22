// The keys of a KeyedSum. They are part of what a digest is: changing one changes every digest that was ever stored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ucp {

inline constexpr std::uint64_t kBlockWords = 256;

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): the finalizer of SplitMix64.
constexpr std::uint64_t Scramble(std::uint64_t number) {
  std::uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

// Of the words at even and at odd places of a block, in one lane: 32-bit numbers, odd.
struct PairKeys {
  std::array<std::uint64_t, kBlockWords / 2> even{};
  std::array<std::uint64_t, kBlockWords / 2> odd{};
};

constexpr std::array<PairKeys, 4> MakePairKeys() {
  std::array<PairKeys, 4> keys;
  for (std::size_t lane = 0; lane < keys.size(); ++lane) {
    for (std::size_t place = 0; place < kBlockWords; ++place) {
      std::uint64_t key = (Scramble(lane * kBlockWords + place) >> 32) | 1;
      (place % 2 == 0 ? keys[lane].even : keys[lane].odd)[place / 2] = key;
    }
  }
  return keys;
}
inline constexpr std::array<PairKeys, 4> kPairKeys = MakePairKeys();

// Of a whole block, in one lane: a 64-bit number, odd. Another stream than the words' keys.
constexpr std::uint64_t BlockKey(std::size_t lane, std::uint64_t block) {
  return Scramble(Scramble(block) + lane + 1024) | 1;
}

}  // namespace ucp
