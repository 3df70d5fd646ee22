#include "compiler/formats/pytorch/values/utf8.h"

#include <cstdint>
#include <cstring>

namespace ucp::pytorch {
namespace {

// Takes one character from the front; nothing if it is not well formed (overlong, cut, beyond U+10FFFF).
std::optional<std::uint32_t> TakeCharacter(std::string_view& text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return std::nullopt;
  std::uint32_t character = length == 1 ? first : first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    character = character << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (character < kSmallest[length] || character > 0x10ffff) return std::nullopt;
  text.remove_prefix(length);
  return character;
}

}  // namespace

bool IsPickleUtf8(std::string_view text) {
  // Names are ASCII, nearly all: eight bytes are looked at together.
  while (text.size() >= sizeof(std::uint64_t)) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, text.data(), sizeof bytes);
    if ((bytes & 0x8080808080808080) != 0) break;
    text.remove_prefix(sizeof bytes);
  }
  while (!text.empty() && static_cast<std::uint8_t>(text.front()) < 0x80) text.remove_prefix(1);
  while (!text.empty()) {
    if (!TakeCharacter(text)) return false;
  }
  return true;
}

std::optional<std::string> Latin1Bytes(std::string_view utf8) {
  std::string bytes;
  while (!utf8.empty()) {
    const std::optional<std::uint32_t> character = TakeCharacter(utf8);
    if (!character || *character > 0xff) return std::nullopt;
    bytes.push_back(static_cast<char>(*character));
  }
  return bytes;
}

std::string Latin1Text(std::string_view bytes) {
  std::string utf8;
  for (const char byte : bytes) {
    const auto character = static_cast<std::uint8_t>(byte);
    if (character < 0x80) {
      utf8.push_back(byte);
    } else {
      utf8.push_back(static_cast<char>(0xc0 | character >> 6));
      utf8.push_back(static_cast<char>(0x80 | (character & 0x3f)));
    }
  }
  return utf8;
}

}  // namespace ucp::pytorch
