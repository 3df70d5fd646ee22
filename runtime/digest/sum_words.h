// The inner loop of a KeyedSum, for whole words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ucp {

using SumLanes = std::array<std::uint64_t, 4>;

// Word number `place` is `word`.
void AddWord(std::uint64_t place, std::uint32_t word, SumLanes& lanes);

// Words from number `place` on; `bytes` are a multiple of four, and need not be aligned.
void AddWords(std::uint64_t place, std::span<const std::byte> bytes, SumLanes& lanes);

}  // namespace ucp
