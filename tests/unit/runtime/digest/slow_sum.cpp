#include "tests/unit/runtime/digest/slow_sum.h"

#include <array>

namespace ucp {
namespace {

std::uint64_t SplitMix(std::uint64_t n) {
  std::uint64_t z = n * 0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// Multiplication of polynomials over GF(2) modulo x^8 + x^4 + x^3 + x + 1 (FIPS 197, 4.2).
unsigned Multiply(unsigned a, unsigned b) {
  unsigned product = 0;
  for (; b != 0; b >>= 1) {
    if (b & 1) product ^= a;
    a = a & 0x80 ? (a << 1) ^ 0x11B : a << 1;
  }
  return product;
}

// FIPS 197, 5.1.1: the inverse, found by trying, and the affine map bit by bit.
unsigned SubByte(unsigned byte) {
  unsigned inverse = 0;
  for (unsigned candidate = 1; candidate < 256; ++candidate) {
    if (Multiply(byte, candidate) == 1) inverse = candidate;
  }
  unsigned result = 0;
  for (unsigned bit = 0; bit < 8; ++bit) {
    unsigned sum = 0x63 >> bit;
    for (unsigned other : {0U, 4U, 5U, 6U, 7U}) sum ^= inverse >> ((bit + other) % 8);
    result |= (sum & 1) << bit;
  }
  return result;
}

using State = std::array<unsigned, 16>;  // Column by column.

State Round(const State& state, const State& key) {
  static const auto box = [] {
    std::array<unsigned, 256> all{};
    for (unsigned byte = 0; byte < 256; ++byte) all[byte] = SubByte(byte);
    return all;
  }();
  constexpr unsigned kMix[4][4] = {{2, 3, 1, 1}, {1, 2, 3, 1}, {1, 1, 2, 3}, {3, 1, 1, 2}};
  State result{};
  for (unsigned column = 0; column < 4; ++column) {
    for (unsigned row = 0; row < 4; ++row) {
      for (unsigned from = 0; from < 4; ++from) {
        result[4 * column + row] ^= Multiply(kMix[row][from], box[state[(4 * (column + from) + from) % 16]]);
      }
      result[4 * column + row] ^= key[4 * column + row];
    }
  }
  return result;
}

State BytesOf(std::uint64_t low, std::uint64_t high) {
  State bytes{};
  for (unsigned i = 0; i < 16; ++i) bytes[i] = (i < 8 ? low >> (8 * i) : high >> (8 * (i - 8))) & 0xFF;
  return bytes;
}

std::uint64_t HalfOf(const State& state, unsigned half) {
  std::uint64_t number = 0;
  for (unsigned i = 8; i-- > 0;) number = number << 8 | state[8 * half + i];
  return number;
}

void AddUnit(std::uint64_t place, std::uint64_t unit, std::size_t unit_bytes, SumLanes& lanes) {
  if (unit_bytes < 8) unit |= unit << 32;
  const std::uint64_t in_block = place % 1024;
  const std::uint64_t start = SplitMix(place / 1024) + 2048;
  State state = BytesOf(unit ^ SplitMix(2 * in_block), unit ^ SplitMix(2 * in_block + 1));
  state = Round(state, BytesOf(SplitMix(start), SplitMix(start + 1)));
  state = Round(state, BytesOf(SplitMix(start + 2), SplitMix(start + 3)));
  state = Round(state, State{});
  lanes[0] += HalfOf(state, 0);
  lanes[1] += HalfOf(state, 1);
  lanes[2] ^= HalfOf(state, 0);
  lanes[3] ^= HalfOf(state, 1);
}

}  // namespace

SumLanes SlowUnits(std::uint64_t place, std::size_t unit_bytes, std::span<const std::byte> bytes) {
  SumLanes lanes{};
  for (std::size_t begin = 0; begin < bytes.size(); begin += unit_bytes) {
    std::uint64_t unit = 0;
    for (std::size_t i = unit_bytes; i-- > 0;) unit = unit << 8 | std::to_integer<std::uint64_t>(bytes[begin + i]);
    AddUnit(place, unit, unit_bytes, lanes);
    place += unit_bytes == 8 ? 2 : 1;
  }
  return lanes;
}

SumLanes SlowLinear(std::uint64_t place, std::span<const std::byte> bytes) {
  SumLanes lanes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::uint64_t word = (place + i) / 4;
    const std::uint64_t part = std::to_integer<std::uint64_t>(bytes[i]) << (8 * ((place + i) % 4));
    for (std::uint64_t lane = 0; lane < 4; ++lane) {
      const std::uint64_t t = SplitMix(256 * lane + word % 256) >> 32 | 1;
      const std::uint64_t r = SplitMix(SplitMix(word / 256) + lane + 1024) | 1;
      lanes[lane] += part * t * r;
    }
  }
  return lanes;
}

}  // namespace ucp
