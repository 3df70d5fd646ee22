#include "runtime/wire/byte_codec.h"

#include <bit>
#include <cstring>

namespace ucp::wire {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

void ByteWriter::Append(const void* data, std::size_t bytes) {
  if (bytes_.empty()) {
    bytes_ = kMagic;
    bytes_.push_back(static_cast<char>(kVersion));
  }
  bytes_.append(static_cast<const char*>(data), bytes);
}

void ByteWriter::Add(std::uint64_t number) { Append(&number, sizeof(number)); }

void ByteWriter::Add(std::string_view text) {
  Add(std::uint64_t{text.size()});
  Append(text.data(), text.size());
}

ByteReader::ByteReader(std::string_view bytes) : left_(bytes) {
  if (bytes.empty()) return;
  const bool is_ours = bytes.size() >= kHeadBytes && bytes.starts_with(kMagic) &&
                       static_cast<std::uint8_t>(bytes[kMagic.size()]) == kVersion;
  if (is_ours) {
    left_.remove_prefix(kHeadBytes);
  } else {
    Fail();
  }
}

void ByteReader::Fail() {
  has_failed_ = true;
  left_ = {};
}

std::uint64_t ByteReader::Number() {
  std::uint64_t number = 0;
  if (left_.size() < sizeof(number)) {
    Fail();
    return 0;
  }
  std::memcpy(&number, left_.data(), sizeof(number));
  left_.remove_prefix(sizeof(number));
  return number;
}

std::string ByteReader::Text() {
  const std::uint64_t bytes = Number();
  if (bytes > left_.size()) {
    Fail();
    return "";
  }
  std::string text(left_.substr(0, bytes));
  left_.remove_prefix(bytes);
  return text;
}

std::uint64_t ByteReader::Count() {
  const std::uint64_t count = Number();
  if (count <= left_.size() / sizeof(std::uint64_t)) return count;
  Fail();
  return 0;
}

}  // namespace ucp::wire
