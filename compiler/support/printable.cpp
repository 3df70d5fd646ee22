#include "compiler/support/printable.h"

#include <fmt/format.h>
#include <llvm/Support/ConvertUTF.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace ucp {
namespace {

struct CodePoints {
  std::uint32_t first;
  std::uint32_t last;
};
// Controls of the second kind; marks, embeddings, overrides and isolates of direction; what has no width; separators of
// lines; tags, which no one sees.
constexpr std::array kHidden = {CodePoints{0x80, 0x9f},      CodePoints{0xad, 0xad},     CodePoints{0x61c, 0x61c},
                                CodePoints{0x180e, 0x180e},  CodePoints{0x200b, 0x200f}, CodePoints{0x2028, 0x202e},
                                CodePoints{0x2060, 0x206f},  CodePoints{0xfeff, 0xfeff}, CodePoints{0xfff9, 0xfffb},
                                CodePoints{0xe0000, 0xe007f}};

bool IsHidden(std::uint32_t code_point) {
  return std::any_of(kHidden.begin(), kHidden.end(),
                     [&](const CodePoints& hidden) { return code_point >= hidden.first && code_point <= hidden.last; });
}

// The bytes of the code point that `text` begins with, and which it is; 0 if these bytes are not UTF-8.
std::size_t ReadCodePoint(std::string_view text, std::uint32_t& code_point) {
  const auto* begin = reinterpret_cast<const llvm::UTF8*>(text.data());
  const llvm::UTF8* at = begin;
  llvm::UTF32 wide = 0;
  llvm::ConversionResult result = llvm::convertUTF8Sequence(&at, begin + text.size(), &wide, llvm::strictConversion);
  code_point = wide;
  return result == llvm::conversionOK ? static_cast<std::size_t>(at - begin) : 0;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    auto byte = static_cast<unsigned char>(text.front());
    std::uint32_t code_point = byte;
    std::size_t bytes = byte < 0x80 ? 1 : ReadCodePoint(text, code_point);
    if (byte == '\n') {
      printable += "\\n";
    } else if (bytes == 0 || byte < 0x20 || byte == 0x7f) {
      printable += fmt::format("\\x{:02x}", byte);
      bytes = 1;
    } else if (IsHidden(code_point)) {
      printable += fmt::format("\\u{{{:x}}}", code_point);
    } else {
      printable += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return printable;
}

std::string TakePrintableJson(std::string& json) {
  std::string printable;
  std::string_view left = json;
  while (!left.empty()) {
    const auto is_plain = [](char c) { return static_cast<unsigned char>(c) < 0x7f; };
    const auto plain = static_cast<std::size_t>(std::ranges::find_if_not(left, is_plain) - left.begin());
    printable += left.substr(0, plain);
    left.remove_prefix(plain);
    if (left.empty()) break;
    std::uint32_t code_point = 0x7f;
    std::size_t bytes = left.front() == '\x7f' ? 1 : ReadCodePoint(left, code_point);
    if (bytes == 0 && left.size() < 4) break;
    bytes = std::max(bytes, std::size_t{1});  // JSON has UTF-8 alone.
    if (code_point == 0x7f || IsHidden(code_point)) {
      if (code_point > 0xffff) {
        printable += fmt::format("\\u{:04x}", 0xd7c0 + (code_point >> 10));
        code_point = 0xdc00 + (code_point & 0x3ff);
      }
      printable += fmt::format("\\u{:04x}", code_point);
    } else {
      printable += left.substr(0, bytes);
    }
    left.remove_prefix(bytes);
  }
  json.erase(0, json.size() - left.size());
  return printable;
}

std::string PrintableLines(std::string_view text) {
  std::string lines;
  while (true) {
    std::size_t end = text.find('\n');
    lines += Printable(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace ucp
