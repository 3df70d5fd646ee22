#include "runtime/digest/keyed_sum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "compiler/support/check.h"
#include "compiler/support/checksum.h"
#include "runtime/digest/linear_sum.h"

namespace ucp {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in memory");

constexpr std::uint64_t kMostUnitBytes = 8;

bool IsSum(DigestVersion version, std::size_t lane) { return version == DigestVersion::kLinear || lane < 2; }

std::string DigestOf(const KeyedSum& sum, std::string_view what) {
  std::string text(reinterpret_cast<const char*>(sum.lanes.data()), sizeof(sum.lanes));
  return ContentHash(text.append(what));
}

}  // namespace

void KeyedSum::AddElements(std::uint64_t first, std::uint64_t item_bytes, std::span<const std::byte> bytes) {
  if (version == DigestVersion::kLinear) return AddLinearly(first * item_bytes, bytes, lanes);
  const std::uint64_t unit_bytes = std::min(item_bytes, kMostUnitBytes);
  const std::uint64_t places = item_bytes / unit_bytes * PlacesOfUnit(unit_bytes);
  AddUnits(first * places, unit_bytes, bytes, lanes);
}

void KeyedSum::Add(const KeyedSum& other) {
  UCP_CHECK(version == other.version, "a sum of version {} and one of version {}", static_cast<int>(version),
            static_cast<int>(other.version));
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (IsSum(version, lane)) {
      lanes[lane] += other.lanes[lane];
    } else {
      lanes[lane] ^= other.lanes[lane];
    }
  }
}

void SharedKeyedSum::Add(const KeyedSum& sum) {
  for (std::size_t lane = 0; lane < sum.lanes.size(); ++lane) {
    if (IsSum(sum.version, lane)) {
      lanes_[lane].fetch_add(sum.lanes[lane], std::memory_order_relaxed);
    } else {
      lanes_[lane].fetch_xor(sum.lanes[lane], std::memory_order_relaxed);
    }
  }
}

KeyedSum SharedKeyedSum::Get(DigestVersion version) const {
  KeyedSum sum{version, {}};
  for (std::size_t lane = 0; lane < sum.lanes.size(); ++lane) sum.lanes[lane] = lanes_[lane];
  return sum;
}

std::string FileDigest(const KeyedSum& sum, std::uint64_t bytes) {
  return DigestOf(sum, fmt::format("file {}", bytes));
}

std::string StateDigestOf(const KeyedSum& sum, const StateForm& form) {
  if (sum.version == DigestVersion::kLinear) {
    std::uint64_t elements = 1;
    for (std::int64_t length : form.shape) elements *= static_cast<std::uint64_t>(length);
    return DigestOf(sum, fmt::format("{} {}", form.dtype, elements));
  }
  return DigestOf(sum, fmt::format("tensor {} [{}] {}", form.dtype, fmt::join(form.shape, ", "), form.state));
}

}  // namespace ucp
