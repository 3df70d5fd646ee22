// Name patterns: text, {alternatives}, {captures: count} and {computed numbers}.
#include <fmt/format.h>

#include <utility>

#include "compiler/parse/expression_builder.h"
#include "compiler/parse/tokens.h"

namespace ucp {
namespace {

constexpr std::string_view kCaptureHint =
    "a capture is written as in `{i: layers}`, `{i + 3: layers@pp}`, `{2 * i + 1: pairs}` or `{i.local: layers}`";

}  // namespace

ast::NamePattern ExpressionBuilder::BuildPattern(Parser::StringContext& rule) {
  ast::NamePattern pattern{.range = RangeOf(rule), .pieces = {}};
  for (auto* piece : rule.piece()) {
    antlr4::Token& token = *piece->getStart();
    if (piece->hole() != nullptr) {
      pattern.pieces.push_back(BuildHole(*piece->hole()));
    } else if (piece->ALTERNATIVES() != nullptr) {
      pattern.pieces.push_back(BuildAlternatives(token));
    } else {
      RefuseWildcard(RangeOf(token));
      pattern.pieces.emplace_back(ast::Literal{RangeOf(token), std::string(source_.TextOf(RangeOf(token)))});
    }
  }
  return pattern;
}

// No tensor has a `*` in its name, so it was meant for any text.
void ExpressionBuilder::RefuseWildcard(SourceRange text) {
  const std::size_t star = source_.TextOf(text).find('*');
  if (star == std::string_view::npos) return;
  const std::uint32_t at = text.begin + static_cast<std::uint32_t>(star);
  Report(DiagnosticKind::kBadNamePattern, {at, at + 1}, "`*` stands for nothing in a name: there are no wildcards",
         "numbers are counted, as in `{i: layers}`, and words are listed, as in `{weight|bias}`");
}

std::string ExpressionBuilder::BuildPlainText(Parser::StringContext& rule) {
  for (auto* piece : rule.piece()) {
    if (piece->TEXT_LITERAL() != nullptr) continue;
    Report(DiagnosticKind::kBadNamePattern, RangeOf(*piece), "braces have a meaning in the names of tensors only");
  }
  SourceRange range = RangeOf(rule);
  return std::string(source_.TextOf({range.begin + 1, std::max(range.begin + 1, range.end - 1)}));
}

// {weight | bias}: blanks around an option do not count.
ast::NamePiece ExpressionBuilder::BuildAlternatives(antlr4::Token& token) {
  SourceRange range = RangeOf(token);
  ast::Alternatives alternatives{.range = range, .options = {}};
  for (std::uint32_t begin = range.begin + 1; begin < range.end;) {
    std::string_view rest = source_.TextOf({begin, range.end - 1});
    auto end = begin + static_cast<std::uint32_t>(std::min(rest.find('|'), rest.size()));
    SourceRange option{begin, end};
    while (option.begin < option.end && source_.text()[option.begin] == ' ') ++option.begin;
    while (option.begin < option.end && source_.text()[option.end - 1] == ' ') --option.end;
    std::string_view text = source_.TextOf(option);
    if (text.find_first_of(" \t:@*") != std::string_view::npos) {
      Report(DiagnosticKind::kBadNamePattern, option,
             fmt::format("`{}` is not an alternative: it has more than a name", text),
             "alternatives are plain text, as in `{weight|bias}`; a capture has none");
    }
    alternatives.options.push_back({option, std::string(text)});
    begin = end + 1;
  }
  return alternatives;
}

ast::NamePiece ExpressionBuilder::BuildHole(Parser::HoleContext& rule) {
  auto parts = rule.offset();
  if (parts.size() == 1) return ast::Computed{RangeOf(rule), BuildOffset(*parts[0], false)};
  ast::Expr count = BuildOffset(*parts[1], false);
  std::optional<ast::Capture> capture = BuildCounter(*parts[0]);
  if (!capture) return ast::Computed{RangeOf(rule), std::move(count)};
  capture->range = RangeOf(rule);
  capture->count = std::move(count);
  return *std::move(capture);
}

// i, i + 3, 2 * i + 1, i.local + layers: the counter comes first, with a number before it or not, and the rest is its
// offset.
std::optional<ast::Capture> ExpressionBuilder::BuildCounter(Parser::OffsetContext& rule) {
  Parser::ProductContext& first = *rule.product(0);
  const bool has_factor = first.cut().size() == 2 && first.children[1]->getText() == "*" &&
                          dynamic_cast<Parser::NumberContext*>(first.cut(0)->primary()) != nullptr;
  Parser::CutContext& counted = *first.cut(has_factor ? 1 : 0);
  auto* reference = dynamic_cast<Parser::ReferenceContext*>(counted.primary());
  auto* member = reference == nullptr ? nullptr : dynamic_cast<Parser::MemberContext*>(reference->suffix());
  bool is_name = reference != nullptr && (reference->suffix() == nullptr || member != nullptr);
  bool is_local = member != nullptr && member->name()->getText() == "local";
  const bool is_alone = first.children.size() == (has_factor ? 3 : 1) && counted.children.size() == 1 &&
                        first.cut(0)->children.size() == 1;
  if (!is_name || !is_alone || (member != nullptr && !is_local)) {
    Report(DiagnosticKind::kBadNamePattern, RangeOf(first),
           fmt::format("a capture begins with its counter, found `{}`", source_.TextOf(RangeOf(first))),
           std::string(kCaptureHint));
    return std::nullopt;
  }
  ast::Capture capture;
  capture.counter = BuildIdentifier(*reference->name());
  capture.local = is_local;
  if (has_factor) {
    capture.factor = BuildNumber(*first.cut(0)->primary()->getStart());
    if (capture.factor < 1 || is_local) {
      Report(DiagnosticKind::kBadNamePattern, RangeOf(first),
             is_local ? "a local counter has no factor" : "a counter is multiplied by a number from 1 on",
             std::string(kCaptureHint));
      return std::nullopt;
    }
  }
  if (rule.children.size() > 1) capture.offset = BuildOffset(rule, true);
  return capture;
}

ast::Expr ExpressionBuilder::BuildOffset(Parser::OffsetContext& rule, bool without_first) {
  auto products = rule.product();
  ast::Sum sum;
  for (std::size_t i = without_first ? 1 : 0; i < products.size(); ++i) {
    bool minus = i > 0 && rule.children[2 * i - 1]->getText() == "-";
    sum.terms.push_back(
        {.op = minus ? ast::SumOperator::kMinus : ast::SumOperator::kPlus, .expr = BuildProduct(*products[i])});
  }
  if (sum.terms.size() == 1 && sum.terms[0].op == ast::SumOperator::kPlus) return std::move(sum.terms[0].expr);
  SourceRange range = Cover(sum.terms.front().expr.range, sum.terms.back().expr.range);
  return {.range = range, .node = std::move(sum)};
}

}  // namespace ucp
