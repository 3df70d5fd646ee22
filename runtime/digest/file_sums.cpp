#include "runtime/digest/file_sums.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "compiler/support/check.h"
#include "runtime/digest/linear_sum.h"

namespace ucp {
namespace {

constexpr std::uint64_t kUnitBytes = 8;

}  // namespace

FileSums::FileSums(std::vector<std::uint64_t> bytes, DigestVersion version)
    : bytes_(std::move(bytes)), version_(version), sums_(bytes_.size()) {}

void FileSums::Add(std::size_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
  UCP_CHECK(offset <= bytes_[file] && bytes.size() <= bytes_[file] - offset, "bytes {} to {} of file {}, which has {}",
            offset, offset + bytes.size(), file, bytes_[file]);
  KeyedSum sum{version_, {}};
  if (version_ == DigestVersion::kLinear) {
    AddLinearly(offset, bytes, sum.lanes);
    sums_[file].Add(sum);
    return;
  }
  const std::uint64_t before = std::min<std::uint64_t>((kUnitBytes - offset % kUnitBytes) % kUnitBytes, bytes.size());
  const std::uint64_t whole = (bytes.size() - before) / kUnitBytes * kUnitBytes;
  AddEnd(file, offset, bytes.first(before));
  if (whole > 0) {
    sum.AddElements((offset + before) / kUnitBytes, kUnitBytes, bytes.subspan(before, whole));
    sums_[file].Add(sum);
  }
  AddEnd(file, offset + before + whole, bytes.subspan(before + whole));
}

void FileSums::AddZeros(std::size_t file, std::uint64_t begin, std::uint64_t end) {
  constexpr std::array<std::byte, 4096> kZeros{};
  for (std::uint64_t at = begin; at < end; at += kZeros.size()) {
    Add(file, at, std::span(kZeros).first(std::min<std::uint64_t>(kZeros.size(), end - at)));
  }
}

// Some bytes of one unit.
void FileSums::AddEnd(std::size_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  PartOfUnit part{file, offset / kUnitBytes};
  auto at = [&](std::uint64_t& number) { return reinterpret_cast<std::byte*>(&number) + offset % kUnitBytes; };
  std::memcpy(at(part.bits), bytes.data(), bytes.size());
  std::memset(at(part.known), 0xFF, bytes.size());
  (void)AddPart(part);  // Only a plan that writes a byte twice has parts that cannot be.
}

std::uint64_t FileSums::AllOfUnit(std::size_t file, std::uint64_t unit) const {
  const std::uint64_t bytes = std::min(kUnitBytes, bytes_[file] - unit * kUnitBytes);
  return ~std::uint64_t{0} >> (8 * (kUnitBytes - bytes));
}

bool FileSums::AddPart(const PartOfUnit& part) {
  const std::size_t file = part.file;
  if (version_ == DigestVersion::kLinear || file >= bytes_.size()) return false;
  if (part.unit > bytes_[file] / kUnitBytes || part.unit * kUnitBytes >= bytes_[file]) return false;
  const std::uint64_t all = AllOfUnit(file, part.unit);
  if ((part.known & ~all) != 0 || (part.bits & ~part.known) != 0) return false;
  if (part.known == all) return AddUnit(part);
  std::lock_guard lock(mutex_);
  auto [entry, is_new] = parts_.try_emplace({part.file, part.unit}, PartOfUnit{part.file, part.unit});
  PartOfUnit& joined = entry->second;
  if ((joined.known & part.known) != 0) return false;
  joined.bits |= part.bits;
  joined.known |= part.known;
  if (joined.known != all) return true;
  const PartOfUnit whole = joined;
  parts_.erase(entry);
  return AddUnit(whole);
}

bool FileSums::AddUnit(const PartOfUnit& whole) {
  KeyedSum sum{version_, {}};
  sum.AddElements(whole.unit, kUnitBytes, std::as_bytes(std::span(&whole.bits, 1)));
  sums_[whole.file].Add(sum);
  return true;
}

std::vector<PartOfUnit> FileSums::Parts() const {
  std::lock_guard lock(mutex_);
  std::vector<PartOfUnit> parts;
  for (const auto& [place, part] : parts_) parts.push_back(part);
  return parts;
}

}  // namespace ucp
