// Two neighbours say what stands between them: nothing around `@` and `.`, inside of brackets, before a comma, between
// a function and its argument; one blank everywhere else. Cells are kept apart by two blanks, and by one further on.
#include "compiler/pretty/spacing.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ucp::pretty {
namespace {

template <std::size_t kCount>
bool IsOneOf(std::string_view text, const std::array<std::string_view, kCount>& candidates) {
  return std::find(candidates.begin(), candidates.end(), text) != candidates.end();
}

bool Opens(const Word& word) { return word.text == "(" || word.text == "["; }
bool Closes(const Word& word) { return word.text == ")" || word.text == "]"; }

// Whether a bracket behind this word belongs to it: pad(…), tp(spread 64), (tp, dp)(chunk), scale(…), kinds[i], pp[2].
bool TakesBrackets(const Word& word) {
  static constexpr std::array<std::string_view, 7> kWordsBeforeExpressions = {"and",  "or",   "not", "in",
                                                                              "when", "else", "of"};
  return word.text == ")" || (word.kind == WordKind::kWord && !IsOneOf(word.text, kWordsBeforeExpressions));
}

// The `widths` of `ffn@tp(widths [3, 3, 2])`, whose list is not an index.
bool IsCutRule(const Word& before, const Word& word) {
  static constexpr std::array<std::string_view, 3> kRules = {"spread", "widths", "list"};
  return before.text == "(" && IsOneOf(word.text, kRules);
}

// The sign of `offset(-1)`: no other operator stands behind a bracket that opens.
bool IsSign(const Word& before, const Word& word) { return Opens(before) && word.text == "-"; }

bool StandTogether(const Word& left, const Word& right) {
  static constexpr std::array<std::string_view, 2> kTightOnBothSides = {"@", "."};
  static constexpr std::array<std::string_view, 3> kTightOnTheLeft = {",", ";", ":"};
  if (IsOneOf(left.text, kTightOnBothSides) || IsOneOf(right.text, kTightOnBothSides)) return true;
  if (Opens(left) || Closes(right) || IsOneOf(right.text, kTightOnTheLeft)) return true;
  if (left.text == "{" && right.text == "}") return true;
  return Opens(right) && TakesBrackets(left);
}

// A break is better between the clauses of a row than inside of an expression, and the better the fewer brackets are
// open. Operators begin the next line; a comma ends its own.
int StrengthBefore(const Word& left, const Word& right) {
  static constexpr std::array<std::string_view, 7> kClauses = {"from", "when", "else", "at", "mean", "scale", "offset"};
  static constexpr std::array<std::string_view, 7> kComparisons = {"==", "!=", "<", "<=", ">", ">=", "in"};
  if (right.kind == WordKind::kString || left.text == "}" || right.text == "{" || right.kind == WordKind::kComment) {
    return Gap::kNeverBroken;
  }
  if (right.text == "=" || IsOneOf(right.text, kClauses)) return 0;
  if (left.text == ",") return 1;
  if (right.text == "or" || right.text == "and") return 2;
  if (IsOneOf(right.text, kComparisons)) return 3;
  if (right.text == "+" || right.text == "-") return 4;
  if (right.text == "*" || right.text == "/" || right.text == "%") return 5;
  return Gap::kNeverBroken;
}

constexpr int kStrengthOfABracket = 6;

}  // namespace

std::vector<Gap> Gaps(const Row& row) {
  std::vector<Gap> gaps(row.words.size());
  int depth = 0;
  for (std::size_t i = 1; i < row.words.size(); ++i) {
    const Word& left = row.words[i - 1];
    const Word& right = row.words[i];
    if (Opens(left)) ++depth;
    if (Closes(left)) --depth;
    Gap& gap = gaps[i];
    auto cell = std::find(row.cells.begin(), row.cells.end(), i);
    if (cell != row.cells.end()) {
      gap.blanks = cell == row.cells.begin() && row.group ? 2 : 1;
      gap.strength = 0;
    } else {
      bool argument = i > 1 && Opens(right) && IsCutRule(row.words[i - 2], left);
      const bool behind_sign = i > 1 && IsSign(row.words[i - 2], left);
      gap.blanks = (StandTogether(left, right) && !argument) || behind_sign ? 0 : 1;
      gap.strength = StrengthBefore(left, right);
      if (gap.strength != Gap::kNeverBroken) gap.strength += depth * kStrengthOfABracket;
    }
    if (right.kind == WordKind::kComment) gap.blanks = 2;
    gap.forced = left.kind == WordKind::kComment || (right.kind == WordKind::kComment && right.first_on_line);
  }
  return gaps;
}

}  // namespace ucp::pretty
