// A key for each tensor and state, and a mixing of the element's number with it, of which 20 bits count. The mixing is
// in 32-bit words without branches, so that the loop becomes vectors.
#include "runtime/synth/synthetic_value.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compiler/plan/plan.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "runtime/elements/rounding.h"

namespace ucp {
namespace {

constexpr std::uint64_t kGolden64 = 0x9E3779B97F4A7C15;
constexpr std::uint32_t kGolden32 = 0x9E3779B1;

// FNV-1a.
std::uint64_t HashOf(std::string_view tensor, std::string_view state) {
  std::uint64_t hash = 0xCBF29CE484222325;
  auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001B3; };
  for (char c : tensor) add(static_cast<unsigned char>(c));
  add(0);
  for (char c : state) add(static_cast<unsigned char>(c));
  return hash;
}

// 20 bits.
std::uint32_t Mix(std::uint32_t low, std::uint32_t first_key, std::uint32_t second_key) {
  std::uint32_t x = (low * kGolden32) ^ first_key;
  x ^= x >> 16;
  x *= 0x85EBCA6B;
  x ^= x >> 13;
  x = (x + second_key) * 0xC2B2AE35;
  x ^= x >> 16;
  return x >> 12;
}

template <typename To, typename Convert>
void Store(std::span<const float> values, std::byte* bytes, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const To value = convert(values[i]);
    std::memcpy(bytes + i * sizeof(To), &value, sizeof(To));
  }
}

}  // namespace

llvm::Expected<SyntheticValues> SyntheticValues::Make(std::string_view tensor, std::string_view state, DType dtype) {
  if (!IsArithmetic(dtype)) {
    return Fail(ErrorCode::kUnsupported, "`{}` of tensor `{}` is {}, and synthetic numbers are floating-point ones",
                state, tensor, Name(dtype));
  }
  // A weight is the rounding of its master.
  const std::string_view source = state == kWeightState ? std::string_view(kMasterState) : state;
  return SyntheticValues(HashOf(tensor, source), state == "exp_avg_sq", dtype);
}

// Odd numbers of 21 bits in units of 2^-24: float32 has them exactly, and also sums of a few equal ones.
void SyntheticValues::FillFloats(std::int64_t first, std::span<float> values) const {
  const std::int32_t below = is_positive_ ? 0 : 1 << 20;
  for (std::size_t done = 0; done < values.size();) {
    const auto number = static_cast<std::uint64_t>(first) + done;
    const std::uint64_t key = key_ + (number >> 32) * kGolden64;
    const auto first_key = static_cast<std::uint32_t>(key);
    const auto second_key = static_cast<std::uint32_t>(key >> 32);
    const auto low = static_cast<std::uint32_t>(number);
    // The key changes where the lower half begins anew.
    const std::uint64_t count = std::min<std::uint64_t>(values.size() - done, (std::uint64_t{1} << 32) - low);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto odd = static_cast<std::int32_t>(2 * Mix(low + i, first_key, second_key) + 1) - below;
      values[done + i] = static_cast<float>(odd) * 0x1p-24F;
    }
    done += count;
  }
}

void SyntheticValues::Fill(std::int64_t first, std::span<std::byte> bytes) const {
  constexpr std::size_t kBlock = 1024;
  std::array<float, kBlock> block;
  const auto item_bytes = static_cast<std::size_t>(ItemBytes(dtype_));
  UCP_CHECK(bytes.size() % item_bytes == 0, "{} bytes of {}", bytes.size(), Name(dtype_));
  for (std::size_t done = 0; done < bytes.size() / item_bytes;) {
    const std::span<float> values(block.data(), std::min(kBlock, bytes.size() / item_bytes - done));
    FillFloats(first + static_cast<std::int64_t>(done), values);
    std::byte* to = bytes.data() + done * item_bytes;
    if (dtype_ == DType::kFloat32) {
      std::memcpy(to, values.data(), values.size_bytes());
    } else if (dtype_ == DType::kBFloat16) {
      Store<std::uint16_t>(values, to, [](float value) { return RoundToBFloat16(value); });
    } else if (dtype_ == DType::kFloat16) {
      Store<std::uint16_t>(values, to, [](float value) { return RoundToFloat16(value); });
    } else {
      Store<double>(values, to, [](float value) { return static_cast<double>(value); });
    }
    done += values.size();
  }
}

}  // namespace ucp
