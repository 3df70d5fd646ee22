// The sums of whole files, whose bytes come in pieces of any length, in any order and from any thread. A file is a row
// of units of 8 bytes, the last one filled up with zeros; of a unit that comes in several pieces, its bytes are kept
// until all of them are there. So there are at most two such parts for each piece that was not joined with its
// neighbours, and none when all of the files' bytes have come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/digest/keyed_sum.h"

namespace ucp {

// The bytes of a unit that have come; the others are 0.
struct PartOfUnit {
  std::uint64_t file = 0;
  std::uint64_t unit = 0;
  std::uint64_t bits = 0;
  std::uint64_t known = 0;  // All ones in each byte that has come.
};

// Safe to use from several threads, but for Restore functions.
class FileSums {
 public:
  // `bytes`: how many each file has.
  explicit FileSums(std::vector<std::uint64_t> bytes, DigestVersion version = kDigestVersion);

  // Each byte comes once; else the sum is that of no file.
  void Add(std::size_t file, std::uint64_t offset, std::span<const std::byte> bytes);
  void AddZeros(std::size_t file, std::uint64_t begin, std::uint64_t end);

  // Adds the sums of somebody else for the same files. A part that cannot be is left out, and the result is false.
  void AddSum(std::size_t file, const KeyedSum& sum) { sums_[file].Add(sum); }
  [[nodiscard]] bool AddPart(const PartOfUnit& part);

  std::size_t size() const { return sums_.size(); }
  DigestVersion version() const { return version_; }
  KeyedSum Sum(std::size_t file) const { return sums_[file].Get(version_); }
  std::vector<PartOfUnit> Parts() const;  // By file and unit.
  // Returns the digest of a file of which all bytes have come.
  std::string Digest(std::size_t file) const { return FileDigest(Sum(file), bytes_[file]); }

  // Memory that this takes for a border between a piece and one that has not come.
  static constexpr std::uint64_t kBytesOfBorder = 96;

 private:
  void AddEnd(std::size_t file, std::uint64_t offset, std::span<const std::byte> bytes);
  bool AddUnit(const PartOfUnit& whole);
  std::uint64_t AllOfUnit(std::size_t file, std::uint64_t unit) const;

  const std::vector<std::uint64_t> bytes_;
  const DigestVersion version_;
  std::vector<SharedKeyedSum> sums_;
  mutable std::mutex mutex_;  // Protects what follows.
  std::map<std::pair<std::uint64_t, std::uint64_t>, PartOfUnit> parts_;
};

}  // namespace ucp
