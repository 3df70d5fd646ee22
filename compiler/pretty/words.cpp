// The lexer's rules again, but few of them: the text is known to parse, so a string ends at the next quote, and every
// other byte that is neither blank nor part of a word is a symbol.
#include "compiler/pretty/words.h"

#include <algorithm>

namespace ucp::pretty {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::size_t SymbolBytes(std::string_view text) {
  for (std::string_view two : {"==", "!=", "<=", ">="}) {
    if (text.starts_with(two)) return two.size();
  }
  return 1;
}

std::size_t WordBytes(std::string_view text) {
  auto end = std::find_if_not(text.begin(), text.end(), IsWordByte);
  return static_cast<std::size_t>(end - text.begin());
}

// The word that `text` begins with, and how many bytes it takes.
std::size_t ReadWord(std::string_view text, Word& word) {
  std::size_t bytes = 0;
  if (text.starts_with("//")) {
    word.kind = WordKind::kComment;
    bytes = std::min(text.find('\n'), text.size());
  } else if (text.starts_with('"')) {
    word.kind = WordKind::kString;
    bytes = std::min(text.find('"', 1), text.size() - 1) + 1;
  } else if (IsWordByte(text.front())) {
    word.kind = WordKind::kWord;
    bytes = WordBytes(text);
  } else {
    word.kind = WordKind::kSymbol;
    bytes = SymbolBytes(text);
  }
  word.text = text.substr(0, bytes);
  if (word.kind == WordKind::kComment) word.text = word.text.substr(0, word.text.find_last_not_of(" \t\r") + 1);
  return bytes;
}

}  // namespace

std::vector<Word> SplitWords(const Source& source) {
  std::vector<Word> words;
  std::string_view text = source.text();
  std::size_t line_breaks = 2;  // Since the last word.
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kByteOrderMark)) {
      at += kByteOrderMark.size();
    } else if (std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos) {
      if (text[at++] == '\n') ++line_breaks;
    } else {
      Word word;
      word.begin = static_cast<std::uint32_t>(at);
      word.first_on_line = line_breaks > 0;
      word.blank_line_before = line_breaks > 1;
      at += ReadWord(text.substr(at), word);
      line_breaks = 0;
      words.push_back(word);
    }
  }
  return words;
}

}  // namespace ucp::pretty
