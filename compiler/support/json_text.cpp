#include "compiler/support/json_text.h"

#include <fmt/format.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/JSON.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <unordered_set>

#include "compiler/support/error.h"

namespace ucp {

bool IsUtf8(std::string_view text) { return llvm::json::isUTF8(text); }

namespace {

// The characters that stand in a text as they are. Everything behind the first 32 characters does, but for two.
bool IsPlain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

void AppendEscaped(std::string& json, char c) {
  constexpr std::string_view kMeanings = "\"\\\b\f\n\r\t";
  constexpr std::string_view kEscapes = "\"\\bfnrt";
  if (std::size_t which = kMeanings.find(c); which != std::string_view::npos) {
    json += {'\\', kEscapes[which]};
  } else {
    fmt::format_to(std::back_inserter(json), "\\u{:04x}", static_cast<unsigned>(c));
  }
}

}  // namespace

void AppendJson(std::string& json, std::string_view text) {
  json += '"';
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && IsPlain(text[end])) ++end;
    json.append(text, at, end - at);
    if (end < text.size()) AppendEscaped(json, text[end++]);
    at = end;
  }
  json += '"';
}

std::string QuoteJson(std::string_view text) {
  std::string quoted;
  AppendJson(quoted, text);
  return quoted;
}

llvm::Error JsonReader::Unexpected(std::string_view wanted) const {
  if (at_ >= text_.size()) return Fail(ErrorCode::kBadData, "it ends where {} should stand", wanted);
  return Fail(ErrorCode::kBadData, "at byte {} of it {} should stand", at_, wanted);
}

void JsonReader::SkipBlanks() {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
}

char JsonReader::Next() {
  SkipBlanks();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonReader::Take(char c) {
  if (Next() != c || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

namespace {

// The keys of one object. Most objects have a few; that of a file's header has one for each tensor.
class Keys {
 public:
  // Whether it is a new one.
  bool Add(const std::string& key) {
    if (few_.size() < kFew) {
      if (std::find(few_.begin(), few_.end(), key) != few_.end()) return false;
      few_.push_back(key);
      return true;
    }
    if (many_.empty()) many_.insert(few_.begin(), few_.end());
    return many_.insert(key).second;
  }

 private:
  static constexpr std::size_t kFew = 8;
  llvm::SmallVector<std::string, 4> few_;
  std::unordered_set<std::string> many_;  // All of them, once there are that many.
};

}  // namespace

llvm::Error JsonReader::ReadObject(llvm::function_ref<llvm::Error(const std::string& key)> read_value) {
  if (!Take('{')) return Unexpected("an object");
  if (Take('}')) return llvm::Error::success();
  Keys keys;
  while (true) {
    UCP_ASSIGN_OR_RETURN(std::string key, ReadText());
    if (!keys.Add(key)) return Fail(ErrorCode::kBadData, "it has the key `{}` twice", key);
    if (!Take(':')) return Unexpected("`:`");
    UCP_RETURN_IF_ERROR(read_value(key));
    if (Take('}')) return llvm::Error::success();
    if (!Take(',')) return Unexpected("`,` or `}`");
  }
}

llvm::Error JsonReader::ReadArray(llvm::function_ref<llvm::Error()> read_value) {
  if (!Take('[')) return Unexpected("an array");
  if (Take(']')) return llvm::Error::success();
  while (true) {
    UCP_RETURN_IF_ERROR(read_value());
    if (Take(']')) return llvm::Error::success();
    if (!Take(',')) return Unexpected("`,` or `]`");
  }
}

llvm::Expected<std::string> JsonReader::ReadText() {
  if (!Take('"')) return Unexpected("a text");
  std::string text;
  while (at_ < text_.size() && text_[at_] != '"') {
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsPlain(text_[at_])) ++at_;
    text.append(text_, begin, at_ - begin);
    if (at_ >= text_.size() || text_[at_] == '"') break;
    if (text_[at_] != '\\') return Unexpected("no control character");
    ++at_;
    UCP_RETURN_IF_ERROR(ReadEscape(text));
  }
  if (at_ >= text_.size()) return Unexpected("the end of a text");
  ++at_;
  return text;
}

llvm::Expected<std::uint32_t> JsonReader::ReadHex() {
  std::uint32_t number = 0;
  std::string_view digits = text_.substr(at_, 4);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (error != std::errc() || end != digits.data() + 4) return Unexpected("four hexadecimal digits");
  at_ += 4;
  return number;
}

// Behind the backslash. Surrogates come in pairs.
llvm::Error JsonReader::ReadEscape(std::string& text) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  char c = at_ < text_.size() ? text_[at_] : '\0';
  if (std::size_t which = kEscapes.find(c); which != std::string_view::npos && c != '\0') {
    ++at_;
    text += kMeanings[which];
    return llvm::Error::success();
  }
  if (c != 'u') return Unexpected("an escape that JSON knows");
  ++at_;
  UCP_ASSIGN_OR_RETURN(std::uint32_t point, ReadHex());
  if (point >= 0xD800 && point < 0xDC00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    UCP_ASSIGN_OR_RETURN(std::uint32_t low, ReadHex());
    if (low < 0xDC00 || low >= 0xE000) return Unexpected("the second half of a character");
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  }
  if (point >= 0xD800 && point < 0xE000) return Unexpected("the second half of a character");
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
  } else if (point < 0x10000) {
    text += {static_cast<char>(0xE0 | point >> 12), static_cast<char>(0x80 | (point >> 6 & 0x3F)),
             static_cast<char>(0x80 | (point & 0x3F))};
  } else {
    text += {static_cast<char>(0xF0 | point >> 18), static_cast<char>(0x80 | (point >> 12 & 0x3F)),
             static_cast<char>(0x80 | (point >> 6 & 0x3F)), static_cast<char>(0x80 | (point & 0x3F))};
  }
  return llvm::Error::success();
}

llvm::Expected<std::string_view> JsonReader::ReadWord() {
  Next();
  std::size_t end = at_;
  while (end < text_.size() && std::string_view(",]}\" \t\r\n").find(text_[end]) == std::string_view::npos) ++end;
  if (end == at_) return Unexpected("a value");
  std::string_view word = text_.substr(at_, end - at_);
  at_ = end;
  return word;
}

llvm::Expected<std::uint64_t> JsonReader::ReadSize() {
  Next();
  const std::size_t begin = at_;
  llvm::Expected<std::string_view> word = ReadWord();
  if (!word) llvm::consumeError(word.takeError());
  const std::string_view digits = word ? *word : "";
  std::int64_t number = -1;
  auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  bool whole = error == std::errc() && last == digits.data() + digits.size();
  bool padded = digits.size() > 1 && digits.front() == '0';
  if (whole && !padded && number >= 0 && digits.front() != '-') return static_cast<std::uint64_t>(number);
  at_ = begin;
  return Unexpected("a size: digits, below 2^63");
}

llvm::Error JsonReader::SkipValue(int depth) {
  if (depth < 0) return Unexpected("something that is nested less deep");
  switch (Next()) {
    case '{':
      return ReadObject([&](const std::string&) { return SkipValue(depth - 1); });
    case '[':
      return ReadArray([&] { return SkipValue(depth - 1); });
    case '"':
      return ReadText().takeError();
    default:
      return ReadWord().takeError();
  }
}

llvm::Error JsonReader::ReadEnd() {
  Next();
  return at_ == text_.size() ? llvm::Error::success() : Unexpected("the end");
}

}  // namespace ucp
