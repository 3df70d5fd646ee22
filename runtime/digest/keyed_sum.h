// The base of a digest: a sum that depends on where each number stands, and not on the order in which the numbers are
// seen, nor on the pieces in which they come. Any number of threads and ranks can each add their parts, in any cut, and
// add up the results. docs/digests.md has the definition, and the argument for its strength.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/digest/unit_sum.h"

namespace ucp {

enum class DigestVersion {
  kLinear = 1,  // Of manifests that earlier programs wrote.
  kKeyed = 2,
};
inline constexpr DigestVersion kDigestVersion = DigestVersion::kKeyed;  // Of all that is written.

struct KeyedSum {
  DigestVersion version = kDigestVersion;
  SumLanes lanes{};

  // `bytes` are whole elements of `item_bytes` (1, 2, 4, 8 or 16) each, the first of which is element `first`.
  void AddElements(std::uint64_t first, std::uint64_t item_bytes, std::span<const std::byte> bytes);
  void Add(const KeyedSum& other);  // Of the same version.

  bool operator==(const KeyedSum&) const = default;
};

// A sum that several threads add to, all of one version.
class SharedKeyedSum {
 public:
  void Add(const KeyedSum& sum);
  KeyedSum Get(DigestVersion version = kDigestVersion) const;

 private:
  std::atomic<std::uint64_t> lanes_[4] = {};
};

// Digests: XXH3-128 of the lanes, little-endian, and of a text that says what was added up, as 32 hexadecimal digits.
std::string FileDigest(const KeyedSum& sum, std::uint64_t bytes);  // "file 1024"

// The properties of a tensor's state besides its elements.
struct StateForm {
  std::string_view dtype;
  std::span<const std::int64_t> shape;
  std::string_view state;
};
std::string StateDigestOf(const KeyedSum& sum, const StateForm& form);  // "tensor float32 [160, 128] exp_avg"

}  // namespace ucp
