#include "runtime/digest/keyed_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/support/checksum.h"
#include "runtime/digest/sum_words.h"

namespace ucp {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr std::uint64_t kWordBytes = 4;

// A word of which only some bytes are there.
std::uint32_t PartOfWord(std::uint64_t first, std::span<const std::byte> bytes) {
  std::uint32_t word = 0;
  std::memcpy(reinterpret_cast<std::byte*>(&word) + first, bytes.data(), bytes.size());
  return word;
}

std::string DigestOf(const KeyedSum& sum, std::string_view what) {
  std::string text(reinterpret_cast<const char*>(sum.lanes.data()), sizeof(sum.lanes));
  return ContentHash(text.append(what));
}

}  // namespace

void KeyedSum::Add(std::uint64_t place, std::span<const std::byte> bytes) {
  if (std::uint64_t first = place % kWordBytes; first != 0 && !bytes.empty()) {
    std::size_t count = std::min<std::size_t>(kWordBytes - first, bytes.size());
    AddWord(place / kWordBytes, PartOfWord(first, bytes.first(count)), lanes);
    bytes = bytes.subspan(count);
    place += count;
  }
  std::size_t words = bytes.size() / kWordBytes;
  AddWords(place / kWordBytes, bytes.first(words * kWordBytes), lanes);
  bytes = bytes.subspan(words * kWordBytes);
  if (!bytes.empty()) AddWord(place / kWordBytes + words, PartOfWord(0, bytes), lanes);
}

void KeyedSum::Add(const KeyedSum& other) {
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += other.lanes[lane];
}

void SharedKeyedSum::Add(const KeyedSum& sum) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].fetch_add(sum.lanes[lane], std::memory_order_relaxed);
  }
}

KeyedSum SharedKeyedSum::Get() const {
  KeyedSum sum;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) sum.lanes[lane] = lanes_[lane];
  return sum;
}

std::string FileDigest(const KeyedSum& sum, std::uint64_t bytes) {
  return DigestOf(sum, fmt::format("file {}", bytes));
}

std::string ElementsDigest(const KeyedSum& sum, std::string_view dtype, std::uint64_t elements) {
  return DigestOf(sum, std::string(dtype) + ' ' + std::to_string(elements));
}

}  // namespace ucp
