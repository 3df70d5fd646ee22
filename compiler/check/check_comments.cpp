// `//` begins a comment, and in Python it divides. Where one stands behind an operand, and what follows reads as the
// rest of an expression, the author may have meant the latter: `dim b = (a + 7) // 8 * 8`.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// Operands and operators by turns, an operand first: "8 * 8", "heads", "(a + b)@tp, hidden]".
bool ReadsAsRest(std::string_view text) {
  bool wants_operand = true;
  int open = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (IsBlank(c)) {
      ++i;
    } else if (IsWord(c)) {
      if (!wants_operand) return false;
      while (i < text.size() && IsWord(text[i])) ++i;
      wants_operand = false;
    } else if (c == '(' && wants_operand) {
      ++open;
      ++i;
    } else if ((c == ')' || c == ']') && !wants_operand) {
      if (c == ')' && --open < 0) return false;
      ++i;
    } else if (std::string_view("+-*/%@,").find(c) != std::string_view::npos && !wants_operand) {
      wants_operand = true;
      ++i;
    } else {
      return false;
    }
  }
  return !wants_operand && open == 0;
}

// A number, or a name that is a dim: a word alone is a comment otherwise.
bool BeginsWithOperand(std::string_view text, const CheckedSpec& spec) {
  if (std::isdigit(static_cast<unsigned char>(text.front())) != 0 || text.front() == '(') return true;
  const auto end = std::ranges::find_if_not(text, IsWord);
  const std::string_view word(text.begin(), end);
  return std::ranges::any_of(spec.dims, [&](const DimDeclaration& dim) { return dim.name == word; });
}

}  // namespace

void WarnOfComments(const CheckedSpec& spec, DiagnosticSink& sink) {
  const std::string_view text = spec.source->text();
  bool in_string = false;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (text[i] == '\n') in_string = false;
    if (in_string || text[i] != '/' || text[i + 1] != '/') continue;
    const std::size_t line_begin = text.rfind('\n', i) + 1;  // npos + 1 is 0.
    const std::size_t line_end = std::min(text.find('\n', i), text.size());
    const std::string_view before = Trimmed(text.substr(line_begin, i - line_begin));
    const std::string_view after = Trimmed(text.substr(i + 2, line_end - i - 2));
    const bool follows_operand = !before.empty() && (IsWord(before.back()) || before.back() == ')');
    if (follows_operand && !after.empty() && ReadsAsRest(after) && BeginsWithOperand(after, spec)) {
      sink.Report({.kind = DiagnosticKind::kCommentAfterOperand,
                   .place = SourceRange{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(line_end)},
                   .message = "`//` begins a comment, and what follows reads as the rest of an expression",
                   .hint = "`/` divides exactly; `ceil(a, 8)` is the next multiple of 8 from `a` on"});
    }
    i = line_end;
  }
}

}  // namespace ucp
