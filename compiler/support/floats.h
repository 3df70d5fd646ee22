// The floating-point types of checkpoints: how each is stored, and in which type it is computed with. float32 is
// rounded to narrower types to nearest, ties to even, as PyTorch does. A NaN is rounded to the positive quiet one
// without payload. The functions have no branches and are always inlined, so that loops over them become vectors. nvcc
// also compiles them for GPUs, so that the same lines cast a number on the host and on a device.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#ifdef __CUDACC__
#define UCP_GPU_TOO __host__ __device__ __forceinline__
#else
#define UCP_GPU_TOO [[gnu::always_inline]] inline
#endif

namespace ucp {

UCP_GPU_TOO std::uint16_t RoundToBFloat16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;  // It may carry into the exponent, and rightly so.
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}

// float32 has 8 bits of exponent (bias 127) and 23 of mantissa, float16 5 (bias 15) and 10. Too large becomes infinite.
// Below 2^-14 a float16 counts in units of 2^-24, which are those of a float32 between 0.5 and 1: adding 0.5 rounds.
UCP_GPU_TOO std::uint16_t RoundToFloat16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t sign = bits >> 31 << 15;
  std::uint32_t magnitude = bits & 0x7FFFFFFF;
  std::uint32_t normal = (magnitude - (112U << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000;
  std::uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  std::uint32_t rounded = sign | (magnitude >= 0x47800000 ? 0x7C00 : finite);
  return static_cast<std::uint16_t>(magnitude > 0x7F800000 ? 0x7E00 : rounded);
}

UCP_GPU_TOO float WidenBFloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// Moves the bits to their places, and multiplies by the difference of the biases; that is also right for subnormals.
UCP_GPU_TOO float WidenFloat16(std::uint16_t bits) {
  std::uint32_t moved = (bits & 0x7FFFU) << 13;
  auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(moved) * 0x1p112F);
  std::uint32_t magnitude = (bits & 0x7FFFU) >= 0x7C00 ? moved | 0x7F800000 : finite;
  return std::bit_cast<float>((bits & 0x8000U) << 16 | magnitude);
}

// Load() is exact. Store() rounds to types that are narrower than the type in which they are computed.
struct Float64 {
  using Stored = double;
  UCP_GPU_TOO static double Load(double value) { return value; }
  UCP_GPU_TOO static double Store(double value) { return value; }
};
struct Float32 {
  using Stored = float;
  UCP_GPU_TOO static float Load(float value) { return value; }
  UCP_GPU_TOO static float Store(float value) { return value; }
};
struct BFloat16 {
  using Stored = std::uint16_t;
  UCP_GPU_TOO static float Load(std::uint16_t bits) { return WidenBFloat16(bits); }
  UCP_GPU_TOO static std::uint16_t Store(float value) { return RoundToBFloat16(value); }
};
struct Float16 {
  using Stored = std::uint16_t;
  UCP_GPU_TOO static float Load(std::uint16_t bits) { return WidenFloat16(bits); }
  UCP_GPU_TOO static std::uint16_t Store(float value) { return RoundToFloat16(value); }
};

// Casts one number. float64 goes to float16 and bfloat16 by way of float32.
template <typename From, typename To>
UCP_GPU_TOO typename To::Stored CastNumber(typename From::Stored stored) {
  const auto value = From::Load(stored);
  using Loaded = decltype(From::Load({}));
  using Computed = decltype(To::Load({}));
  using Between = std::conditional_t<std::is_same_v<Computed, double>, Loaded, float>;
  const typename To::Stored result = To::Store(static_cast<Computed>(static_cast<Between>(value)));
  if constexpr (std::is_floating_point_v<typename To::Stored>) {
    return value != value ? std::numeric_limits<typename To::Stored>::quiet_NaN() : result;
  }
  return result;
}

}  // namespace ucp
