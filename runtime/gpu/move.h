// The work of a GPU's kernels, and of the stand-in of tests, for one UcpMove or UcpGather: the same lines, compiled for
// both. The
// caller divides the numbers among `lanes` of equal rank; each lane does every `lanes`th one, from its own on.
#pragma once

#include <cstdint>
#include <cstring>

#include "compiler/support/floats.h"
#include "runtime/gpu/device_calls.h"

namespace ucp {

struct Lane {
  std::uint32_t number = 0;
  std::uint32_t lanes = 1;
};

struct alignas(16) WideUnit {
  std::uint64_t halves[2];
};

// Loads from an address that is a multiple of the unit's size.
template <typename Unit>
UCP_GPU_TOO Unit LoadUnit(const std::byte* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Unit*>(from);
#else
  Unit unit;
  std::memcpy(&unit, from, sizeof unit);
  return unit;
#endif
}

template <typename Unit>
UCP_GPU_TOO void StoreUnit(std::byte* to, Unit unit) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Unit*>(to) = unit;
#else
  std::memcpy(to, &unit, sizeof unit);
#endif
}

template <typename Unit>
UCP_GPU_TOO void CopyUnits(const std::byte* from, std::byte* to, std::uint64_t bytes, Lane lane) {
  const std::uint64_t units = bytes / sizeof(Unit);
  for (std::uint64_t i = lane.number; i < units; i += lane.lanes) {
    StoreUnit<Unit>(to + i * sizeof(Unit), LoadUnit<Unit>(from + i * sizeof(Unit)));
  }
}

// Copies in the largest units that both places and the length are multiples of.
UCP_GPU_TOO void CopyBytes(const std::byte* from, std::byte* to, std::uint64_t bytes, Lane lane) {
  const std::uint64_t common = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to) | bytes;
  if (common % 16 == 0) return CopyUnits<WideUnit>(from, to, bytes, lane);
  if (common % 8 == 0) return CopyUnits<std::uint64_t>(from, to, bytes, lane);
  if (common % 4 == 0) return CopyUnits<std::uint32_t>(from, to, bytes, lane);
  if (common % 2 == 0) return CopyUnits<std::uint16_t>(from, to, bytes, lane);
  CopyUnits<std::uint8_t>(from, to, bytes, lane);
}

template <typename From, typename To>
UCP_GPU_TOO void CastNumbers(const std::byte* from, std::byte* to, std::uint64_t count, Lane lane) {
  for (std::uint64_t i = lane.number; i < count; i += lane.lanes) {
    const auto stored = LoadUnit<typename From::Stored>(from + i * sizeof(typename From::Stored));
    StoreUnit<typename To::Stored>(to + i * sizeof(typename To::Stored), CastNumber<From, To>(stored));
  }
}

template <typename From>
UCP_GPU_TOO void CastFrom(const std::byte* from, const UcpMove& move, std::byte* to, Lane lane) {
  switch (move.to_number) {
    case kUcpFloat64:
      return CastNumbers<From, Float64>(from, to, move.count, lane);
    case kUcpFloat32:
      return CastNumbers<From, Float32>(from, to, move.count, lane);
    case kUcpBFloat16:
      return CastNumbers<From, BFloat16>(from, to, move.count, lane);
    case kUcpFloat16:
      return CastNumbers<From, Float16>(from, to, move.count, lane);
    default:
      return;
  }
}

// This lane's share. A move of bytes is to bytes, and one of numbers to numbers of another kind.
UCP_GPU_TOO void MoveShare(const UcpMove& move, const std::byte* buffer, Lane lane) {
  const std::byte* from = buffer + move.from;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): kernels get addresses so.
  auto* to = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(move.to));
  switch (move.from_number) {
    case kUcpBytes:
      return CopyBytes(from, to, move.count, lane);
    case kUcpFloat64:
      return CastFrom<Float64>(from, move, to, lane);
    case kUcpFloat32:
      return CastFrom<Float32>(from, move, to, lane);
    case kUcpBFloat16:
      return CastFrom<BFloat16>(from, move, to, lane);
    case kUcpFloat16:
      return CastFrom<Float16>(from, move, to, lane);
    default:
      return;
  }
}

template <typename Unit>
UCP_GPU_TOO void GatherUnits(const UcpGather& gather, const std::byte* from, std::byte* to, Lane lane) {
  const std::uint32_t in_row = gather.row_bytes / sizeof(Unit);
  const std::uint32_t units = in_row * gather.rows;
  for (std::uint32_t i = lane.number; i < units; i += lane.lanes) {
    const std::uint32_t row = i / in_row;
    const std::byte* begin = from + static_cast<std::int64_t>(row) * gather.stride;
    StoreUnit<Unit>(to + i * sizeof(Unit), LoadUnit<Unit>(begin + (i - row * in_row) * sizeof(Unit)));
  }
}

// This lane's share, in the largest units that all places and lengths are multiples of.
UCP_GPU_TOO void GatherShare(const UcpGather& gather, std::byte* buffer, Lane lane) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): kernels get addresses so.
  const auto* from = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(gather.from));
  std::byte* to = buffer + gather.to;
  const std::uint64_t common =
      gather.from | static_cast<std::uint64_t>(gather.stride) | reinterpret_cast<std::uintptr_t>(to) | gather.row_bytes;
  if (common % 16 == 0) return GatherUnits<WideUnit>(gather, from, to, lane);
  if (common % 8 == 0) return GatherUnits<std::uint64_t>(gather, from, to, lane);
  if (common % 4 == 0) return GatherUnits<std::uint32_t>(gather, from, to, lane);
  if (common % 2 == 0) return GatherUnits<std::uint16_t>(gather, from, to, lane);
  GatherUnits<std::uint8_t>(gather, from, to, lane);
}

}  // namespace ucp
