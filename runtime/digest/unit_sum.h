// The inner loop of version 2 of a digest's sum (docs/digests.md has it in words).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ucp {

// Two sums modulo 2^64, and two exclusive-ors.
using SumLanes = std::array<std::uint64_t, 4>;

// A unit of 8 bytes takes two places, and a smaller one takes one.
constexpr std::uint64_t PlacesOfUnit(std::size_t unit_bytes) { return unit_bytes == 8 ? 2 : 1; }

// Units of 1, 2, 4 or 8 bytes that follow one another, the first at `place`. `bytes` are whole units, and need not be
// aligned.
void AddUnits(std::uint64_t place, std::size_t unit_bytes, std::span<const std::byte> bytes, SumLanes& lanes);

}  // namespace ucp
