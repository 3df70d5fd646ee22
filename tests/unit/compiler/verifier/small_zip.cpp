#include "tests/unit/compiler/verifier/small_zip.h"

#include <zlib.h>

namespace ucp::oracle {
namespace {

std::string Number(std::uint64_t number, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
  return bytes;
}

constexpr std::uint64_t kFlags = 0x808;  // UTF-8, and a descriptor behind the data.

}  // namespace

std::uint32_t SmallZip::Crc(const std::string& content) {
  const auto* bytes = reinterpret_cast<const Bytef*>(content.data());
  return static_cast<std::uint32_t>(crc32(0, bytes, static_cast<uInt>(content.size())));
}

void SmallZip::LeaveOpen(const std::string& name, std::uint64_t bytes) {
  const std::uint64_t in_directory = directory_.size() + 16;
  Append(name, std::string(bytes, '\0'), 0);
  open_begin_ = bytes_.size() - 16 - bytes;
  open_crc32_places_ = {bytes_.size() - 12, in_directory};
}

void SmallZip::Append(const std::string& name, const std::string& content, std::uint32_t crc32) {
  const std::uint64_t begin = bytes_.size();
  const std::string sizes = Number(crc32, 4) + Number(content.size(), 4) + Number(content.size(), 4);
  bytes_ += "PK\3\4" + Number(0, 2) + Number(kFlags, 2) + Number(0, 18) + Number(name.size(), 2) + Number(4, 2) + name;
  bytes_ += "FB" + Number(0, 2) + content + "PK\7\10" + sizes;
  directory_ += "PK\1\2" + Number(0, 4) + Number(kFlags, 2) + Number(0, 6) + sizes + Number(name.size(), 2) +
                Number(0, 12) + Number(begin, 4) + name;
  ++entries_;
}

void SmallZip::Finish() {
  const std::uint64_t begin = bytes_.size();
  if (!open_crc32_places_.empty()) open_crc32_places_.back() += begin;
  bytes_ += directory_;
  const std::uint64_t end = bytes_.size();
  bytes_ += "PK\6\6" + Number(44, 8) + Number(0, 4) + Number(0, 8) + Number(entries_, 8) + Number(entries_, 8) +
            Number(end - begin, 8) + Number(begin, 8);
  bytes_ += "PK\6\7" + Number(0, 4) + Number(end, 8) + Number(1, 4);
  bytes_ += "PK\5\6" + Number(0, 4) + Number(entries_, 2) + Number(entries_, 2) + Number(end - begin, 4) +
            Number(begin, 4) + Number(0, 2);
}

}  // namespace ucp::oracle
