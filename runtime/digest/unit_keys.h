// The keys of version 2 of a digest's sum. They are part of the definition of a digest: changing one changes every
// digest that was ever stored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ucp {

inline constexpr std::uint64_t kBlockPlaces = 1024;

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): the finalizer of SplitMix64.
constexpr std::uint64_t Scramble(std::uint64_t number) {
  std::uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

// 128 bits, the lower half first.
struct UnitKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// In which order the keys of sixteen neighbouring places lie: places 0, 4, 8, 12, then 1, 5, 9, 13, and so on. A vector
// of 512 bits that has the first number of each of its blocks in all of that block then needs four neighbouring keys.
constexpr std::size_t RowOfPlace(std::size_t place) { return place / 16 * 16 + place % 4 * 4 + place % 16 / 4; }

// Of the places of a block, by RowOfPlace().
constexpr std::array<UnitKey, kBlockPlaces> MakePlaceKeys() {
  std::array<UnitKey, kBlockPlaces> keys{};
  for (std::size_t place = 0; place < kBlockPlaces; ++place) {
    keys[RowOfPlace(place)] = {Scramble(2 * place), Scramble(2 * place + 1)};
  }
  return keys;
}
alignas(64) inline constexpr std::array<UnitKey, kBlockPlaces> kPlaceKeys = MakePlaceKeys();

// Of the second and the third round, for all places of a block.
struct BlockKeys {
  UnitKey second;
  UnitKey third;
};
constexpr BlockKeys KeysOfBlock(std::uint64_t block) {
  const std::uint64_t start = Scramble(block) + 2 * kBlockPlaces;
  return {{Scramble(start), Scramble(start + 1)}, {Scramble(start + 2), Scramble(start + 3)}};
}

}  // namespace ucp
