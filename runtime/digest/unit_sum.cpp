// Compiled once for each kind of vector unit (Highway's dynamic dispatch): below, HWY_NAMESPACE is another name each
// time.
//
// Sixteen places are one step. A vector of units is taken as many times as a block of 128 bits has units, each time
// with another one of them in all of the block, and every block goes through the rounds by itself. Vectors are one
// block long where there are no instructions for rounds on longer ones.
#define HWY_WANT_AVX3_DL  // It has such instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/digest/unit_sum.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/digest/aes_round.h"
#include "runtime/digest/unit_keys.h"
#include "runtime/digest/unit_sum.h"

HWY_BEFORE_NAMESPACE();
namespace ucp::HWY_NAMESPACE {
namespace {

constexpr std::size_t kStepPlaces = 16;

// A unit in all of a block.
std::uint64_t Spread(const std::byte* unit, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, unit, bytes);
  return bytes == 8 ? bits : bits | (bits << 32);
}

#if HWY_TARGET == HWY_SCALAR

void AddUnit(std::uint64_t bits, std::size_t row, const BlockKeys& keys, SumLanes& lanes) {
  auto block_of = [](std::uint64_t low, std::uint64_t high) {
    return std::bit_cast<AesBlock>(std::array<std::uint64_t, 2>{low, high});
  };
  AesBlock state = block_of(bits ^ kPlaceKeys[row].low, bits ^ kPlaceKeys[row].high);
  state = AesRound(state, block_of(keys.second.low, keys.second.high));
  state = AesRound(state, block_of(keys.third.low, keys.third.high));
  const auto mixed = std::bit_cast<std::array<std::uint64_t, 2>>(AesRound(state, AesBlock{}));
  for (std::size_t half = 0; half < 2; ++half) {
    lanes[half] += mixed[half];
    lanes[half + 2] ^= mixed[half];
  }
}

// Without vectors a step is as many units.
template <std::size_t kUnitBytes>
void AddSteps(const std::byte* bytes, std::size_t place, std::size_t steps, const BlockKeys& keys, SumLanes& lanes) {
  constexpr std::size_t kPlaces = PlacesOfUnit(kUnitBytes);
  for (std::size_t p = place; p < place + steps * kStepPlaces; p += kPlaces, bytes += kUnitBytes) {
    AddUnit(Spread(bytes, kUnitBytes), RowOfPlace(p), keys, lanes);
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3_DL
using Bytes = hn::ScalableTag<std::uint8_t>;
#else
using Bytes = hn::FixedTag<std::uint8_t, 16>;
#endif
using Words = hn::Repartition<std::uint32_t, Bytes>;
using Halves = hn::Repartition<std::uint64_t, Bytes>;

const std::uint8_t* BytesOf(const UnitKey& key) { return reinterpret_cast<const std::uint8_t*>(&key); }

// As 32-bit numbers, units of 8 bytes as two.
template <std::size_t kUnitBytes>
HWY_INLINE hn::VFromD<Words> LoadUnits(const std::byte* bytes) {
  const auto* const numbers = reinterpret_cast<const std::uint8_t*>(bytes);
  if constexpr (kUnitBytes >= 4) {
    return hn::BitCast(Words(), hn::LoadU(Bytes(), numbers));
  } else {
    using Unit = std::conditional_t<kUnitBytes == 2, std::uint16_t, std::uint8_t>;
    const hn::Rebind<Unit, Words> units;
    const hn::Repartition<std::uint8_t, decltype(units)> unit_bytes;
    return hn::PromoteTo(Words(), hn::BitCast(units, hn::LoadU(unit_bytes, numbers)));
  }
}

// One unit of each block, as such a vector has them, in all of the block.
template <std::size_t kUnitBytes, int kNumber>
HWY_INLINE hn::VFromD<Bytes> SpreadUnit(hn::VFromD<Words> units) {
  if constexpr (kUnitBytes == 8)
    return hn::BitCast(Bytes(), hn::Broadcast<kNumber>(hn::BitCast(Halves(), units)));
  else
    return hn::BitCast(Bytes(), hn::Broadcast<kNumber>(units));
}

HWY_INLINE void AddTo(SumLanes& lanes, hn::VFromD<Halves> sum, hn::VFromD<Halves> all) {
  std::array<std::uint64_t, hn::MaxLanes(Halves())> sums{};
  std::array<std::uint64_t, hn::MaxLanes(Halves())> alls{};
  hn::StoreU(sum, Halves(), sums.data());
  hn::StoreU(all, Halves(), alls.data());
  for (std::size_t i = 0; i < hn::Lanes(Halves()); ++i) {
    lanes[i % 2] += sums[i];
    lanes[2 + i % 2] ^= alls[i];
  }
}

template <std::size_t kUnitBytes>
void AddSteps(const std::byte* bytes, std::size_t place, std::size_t steps, const BlockKeys& keys, SumLanes& lanes) {
  const auto second = hn::LoadDup128(Bytes(), BytesOf(keys.second));
  const auto third = hn::LoadDup128(Bytes(), BytesOf(keys.third));
  auto mixed = [&](auto unit, const UnitKey& key) HWY_ATTR {
    auto state = hn::Xor(unit, hn::LoadU(Bytes(), BytesOf(key)));
    state = hn::AESRound(hn::AESRound(state, second), third);
    return hn::BitCast(Halves(), hn::AESRound(state, hn::Zero(Bytes())));
  };
  auto sum0 = hn::Zero(Halves());
  auto sum1 = hn::Zero(Halves());
  auto all = hn::Zero(Halves());
  auto add = [&](auto a, auto b) HWY_ATTR {
    sum0 = hn::Add(sum0, a);
    sum1 = hn::Add(sum1, b);
    all = hn::Xor3(all, a, b);
  };
  const std::size_t width = hn::Lanes(Words());  // In places.
  for (std::size_t at = place; at < place + steps * kStepPlaces; at += width) {
    const UnitKey* const row = kPlaceKeys.data() + at / kStepPlaces * kStepPlaces + at % kStepPlaces / 4;
    const auto units = LoadUnits<kUnitBytes>(bytes);
    bytes += width / PlacesOfUnit(kUnitBytes) * kUnitBytes;
    if constexpr (kUnitBytes == 8) {
      add(mixed(SpreadUnit<8, 0>(units), row[0]), mixed(SpreadUnit<8, 1>(units), row[8]));
    } else {
      add(mixed(SpreadUnit<4, 0>(units), row[0]), mixed(SpreadUnit<4, 1>(units), row[4]));
      add(mixed(SpreadUnit<4, 2>(units), row[8]), mixed(SpreadUnit<4, 3>(units), row[12]));
    }
  }
  AddTo(lanes, hn::Add(sum0, sum1), all);
}

// One unit by itself, in a vector of one block.
void AddUnit(std::uint64_t bits, std::size_t row, const BlockKeys& keys, SumLanes& lanes) {
  const hn::FixedTag<std::uint8_t, 16> d;
  auto state =
      hn::Xor(hn::BitCast(d, hn::Set(hn::FixedTag<std::uint64_t, 2>(), bits)), hn::LoadU(d, BytesOf(kPlaceKeys[row])));
  state = hn::AESRound(state, hn::LoadU(d, BytesOf(keys.second)));
  state = hn::AESRound(state, hn::LoadU(d, BytesOf(keys.third)));
  std::array<std::uint64_t, 2> halves{};
  hn::StoreU(hn::AESRound(state, hn::Zero(d)), d, reinterpret_cast<std::uint8_t*>(halves.data()));
  for (std::size_t half = 0; half < 2; ++half) {
    lanes[half] += halves[half];
    lanes[half + 2] ^= halves[half];
  }
}

#endif

// Of one block: `place` is in it.
template <std::size_t kUnitBytes>
void AddWithinBlock(const std::byte* bytes, std::size_t place, std::size_t units, const BlockKeys& keys,
                    SumLanes& lanes) {
  constexpr std::size_t kPlaces = PlacesOfUnit(kUnitBytes);
  auto add_one = [&] {
    AddUnit(Spread(bytes, kUnitBytes), RowOfPlace(place), keys, lanes);
    bytes += kUnitBytes;
    place += kPlaces;
  };
  for (; units > 0 && place % kStepPlaces != 0; --units) add_one();
  const std::size_t steps = units * kPlaces / kStepPlaces;
  AddSteps<kUnitBytes>(bytes, place, steps, keys, lanes);
  bytes += steps * kStepPlaces / kPlaces * kUnitBytes;
  place += steps * kStepPlaces;
  units -= steps * kStepPlaces / kPlaces;
  for (; units > 0; --units) add_one();
}

template <std::size_t kUnitBytes>
void AddBlocks(std::uint64_t place, const std::byte* bytes, std::size_t units, SumLanes& lanes) {
  constexpr std::uint64_t kPlaces = PlacesOfUnit(kUnitBytes);
  while (units > 0) {
    const std::uint64_t in_block = place % kBlockPlaces;
    const std::size_t count = std::min<std::size_t>((kBlockPlaces - in_block) / kPlaces, units);
    AddWithinBlock<kUnitBytes>(bytes, in_block, count, KeysOfBlock(place / kBlockPlaces), lanes);
    place += count * kPlaces;
    bytes += count * kUnitBytes;
    units -= count;
  }
}

void AddUnitsOf(std::uint64_t place, std::size_t unit_bytes, const std::byte* bytes, std::size_t units,
                SumLanes& lanes) {
  if (unit_bytes == 1) return AddBlocks<1>(place, bytes, units, lanes);
  if (unit_bytes == 2) return AddBlocks<2>(place, bytes, units, lanes);
  if (unit_bytes == 4) return AddBlocks<4>(place, bytes, units, lanes);
  AddBlocks<8>(place, bytes, units, lanes);
}

}  // namespace
}  // namespace ucp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ucp {
namespace {

HWY_EXPORT(AddUnitsOf);

}  // namespace

void AddUnits(std::uint64_t place, std::size_t unit_bytes, std::span<const std::byte> bytes, SumLanes& lanes) {
  HWY_DYNAMIC_DISPATCH(AddUnitsOf)(place, unit_bytes, bytes.data(), bytes.size() / unit_bytes, lanes);
}

}  // namespace ucp
#endif
