// One round of AES (FIPS 197) in plain C++, for processors without instructions for it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ucp {

// Columns, whose first byte is the lowest.
using AesBlock = std::array<std::uint32_t, 4>;

// The column that a byte of the first row becomes, by SubBytes and MixColumns.
constexpr std::array<std::uint32_t, 256> MakeAesTable() {
  auto times_two = [](std::uint32_t number) { return ((number << 1) ^ ((number >> 7) * 0x11B)) & 0xFF; };
  std::array<std::uint32_t, 256> table{};
  std::uint32_t number = 1;   // Runs through all numbers but 0, being multiplied by 3 in GF(2^8),
  std::uint32_t inverse = 1;  // and its inverse, being divided by 3.
  auto set = [&](std::uint32_t place, std::uint32_t of) {
    std::uint32_t box = 0x63;
    for (int turn = 0; turn <= 4; ++turn) box ^= (of << turn | of >> (8 - turn)) & 0xFF;
    table[place] = times_two(box) | box << 8 | box << 16 | (times_two(box) ^ box) << 24;
  };
  do {
    number ^= times_two(number);
    for (int shift : {1, 2, 4}) inverse = (inverse ^ inverse << shift) & 0xFF;
    if ((inverse & 0x80) != 0) inverse ^= 0x09;
    set(number, inverse);
  } while (number != 1);
  set(0, 0);
  return table;
}
inline constexpr std::array<std::uint32_t, 256> kAesTable = MakeAesTable();

// SubBytes, ShiftRows, MixColumns, AddRoundKey.
constexpr AesBlock AesRound(const AesBlock& state, const AesBlock& key) {
  AesBlock result = key;
  for (std::size_t column = 0; column < 4; ++column) {
    for (std::size_t row = 0; row < 4; ++row) {
      const std::uint32_t byte = state[(column + row) % 4] >> (8 * row) & 0xFF;
      result[column] ^= std::rotl(kAesTable[byte], static_cast<int>(8 * row));
    }
  }
  return result;
}

}  // namespace ucp
