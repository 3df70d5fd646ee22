// A checksum that depends on where each byte stands, and not on the order in which the bytes are seen, nor on the
// pieces in which they come: any number of threads and ranks can each add what they have, in any cut, and add up the
// results.
//
// The bytes are 32-bit little-endian words; word n counts w * T[l][n % 256] * R[l](n / 256) in each of four lanes l,
// modulo 2^64. A byte counts as its word with zeros for the other three, so that no cut matters. T and R are odd and
// fixed; they look random, and each lane has its own (docs/digests.md has the argument for what is found).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ucp {

struct KeyedSum {
  std::array<std::uint64_t, 4> lanes{};

  // `bytes` stand at byte `place` and behind it.
  void Add(std::uint64_t place, std::span<const std::byte> bytes);
  void Add(const KeyedSum& other);

  bool operator==(const KeyedSum&) const = default;
};

// A sum that several threads add to.
class SharedKeyedSum {
 public:
  void Add(const KeyedSum& sum);
  KeyedSum Get() const;

 private:
  std::array<std::atomic<std::uint64_t>, 4> lanes_{};
};

// Digests: XXH3-128 of the lanes, little-endian, and of a text that says what was added up, as 32 hexadecimal digits.
std::string FileDigest(const KeyedSum& sum, std::uint64_t bytes);                                 // "file 1024"
std::string ElementsDigest(const KeyedSum& sum, std::string_view dtype, std::uint64_t elements);  // "float32 4096"

}  // namespace ucp
