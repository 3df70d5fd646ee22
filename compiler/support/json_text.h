// JSON read strictly, one value at a time, with no recursion but the caller's own: a key that stands twice and numbers
// that are not sizes are errors, which a general reader lets pass. Errors say at which byte of the text.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ucp {

// `version` in each JSON object that a program prints (docs/json.md). It rises when a key is removed, renamed, or
// changes its meaning; new keys leave it.
inline constexpr int kJsonVersion = 1;

// "\"a\\nb\"": as the reference writer quotes it. The text must be UTF-8.
std::string QuoteJson(std::string_view text);
void AppendJson(std::string& json, std::string_view text);  // The same, at the end of `json`.
bool IsUtf8(std::string_view text);

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // Reads `{"key": value, …}`; `read_value` is called behind each colon and must read the value.
  [[nodiscard]] llvm::Error ReadObject(llvm::function_ref<llvm::Error(const std::string& key)> read_value);
  // Reads `[value, …]`.
  [[nodiscard]] llvm::Error ReadArray(llvm::function_ref<llvm::Error()> read_value);
  llvm::Expected<std::string> ReadText();
  llvm::Expected<std::uint64_t> ReadSize();  // An integer from 0 to 2^63 - 1, digits only.
  // true, false, null or a number, as it stands.
  llvm::Expected<std::string_view> ReadWord();
  // Returns the character that the next value begins with; '\0' at the end.
  char Next();
  // Passes over any value that is nested at most `depth` deep.
  [[nodiscard]] llvm::Error SkipValue(int depth);
  [[nodiscard]] llvm::Error ReadEnd();  // Nothing but blanks follows.

 private:
  llvm::Error Unexpected(std::string_view wanted) const;
  void SkipBlanks();
  bool Take(char c);
  llvm::Expected<std::uint32_t> ReadHex();
  [[nodiscard]] llvm::Error ReadEscape(std::string& text);

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace ucp
