#include "compiler/parse/syntax_errors.h"

#include <UcpParser.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/parse/tokens.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

using antlr4::misc::IntervalSet;
using grammar::UcpParser;

constexpr std::size_t kShownBytes = 40;

// Several tokens that one phrase stands for, when the first two are among the expected ones.
struct Phrase {
  std::string_view words;
  std::vector<std::size_t> tokens;
};

const std::vector<Phrase>& Phrases() {
  using P = UcpParser;
  static const std::vector<Phrase> phrases = {
      {"an expression",
       {P::NUMBER, P::LEFT_PAREN, P::NAME, P::LEFT_BRACKET, P::QUOTE, P::TRUE, P::FALSE, P::NOT, P::HAS}},
      {"a declaration", {P::DIM, P::LAYOUT, P::FACT, P::MESH, P::MODEL, P::STRATEGY, P::INCLUDE}},
      {"an item", {P::BLOCK, P::DROP, P::QUOTE, P::OPTIONAL, P::BUFFER, P::TIE, P::WHEN, P::INCLUDE, P::INTERLEAVE}},
      {"an operator",
       {P::STAR, P::SLASH, P::PERCENT, P::PLUS, P::MINUS, P::AT_SIGN, P::EQUAL, P::NOT_EQUAL, P::LESS, P::LESS_EQUAL,
        P::GREATER, P::GREATER_EQUAL, P::IN, P::AND, P::OR}},
      {"text or `}`", {P::TEXT_LITERAL, P::ALTERNATIVES, P::HOLE_BEGIN}},
  };
  return phrases;
}

bool IsKeyword(std::size_t type) { return type >= UcpParser::UCP && type <= UcpParser::FALSE; }

// Punctuation that the lexer has twice, inside and outside of names, so that ANTLR has no spelling for it.
std::string_view Punctuation(std::size_t type) {
  switch (type) {
    case UcpParser::LEFT_BRACKET:
      return "[";
    case UcpParser::RIGHT_BRACKET:
      return "]";
    case UcpParser::LEFT_PAREN:
      return "(";
    case UcpParser::RIGHT_PAREN:
      return ")";
    case UcpParser::LEFT_BRACE:
    case UcpParser::HOLE_BEGIN:
      return "{";
    case UcpParser::RIGHT_BRACE:
    case UcpParser::HOLE_END:
      return "}";
    case UcpParser::COMMA:
      return ",";
    case UcpParser::COLON:
      return ":";
    case UcpParser::DOT:
      return ".";
    case UcpParser::AT_SIGN:
      return "@";
    case UcpParser::MINUS:
      return "-";
    default:
      return "";
  }
}

// `dim`, `]`; without ANTLR's quotes.
std::string Spelling(const antlr4::Parser& parser, std::size_t type) {
  if (std::string_view punctuation = Punctuation(type); !punctuation.empty()) return std::string(punctuation);
  std::string literal = parser.getVocabulary().getLiteralName(type);
  return literal.size() > 2 ? literal.substr(1, literal.size() - 2) : literal;
}

std::string DescribeToken(const antlr4::Parser& parser, std::size_t type) {
  switch (type) {
    case UcpParser::NAME:
      return "a name";
    case UcpParser::NUMBER:
      return "a number";
    case UcpParser::QUOTE:
      return "a string";
    case UcpParser::CLOSING_QUOTE:
      return "a closing quote";
    default:
      return fmt::format("`{}`", Spelling(parser, type));
  }
}

std::string JoinWithOr(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

// Punctuation first: where an expression could also go on, the missing bracket is the more likely mistake.
std::string DescribeExpected(const antlr4::Parser& parser, IntervalSet expected) {
  std::vector<std::string> phrases;
  for (const Phrase& phrase : Phrases()) {
    if (!expected.contains(phrase.tokens[0]) || !expected.contains(phrase.tokens[1])) continue;
    phrases.emplace_back(phrase.words);
    for (std::size_t token : phrase.tokens) expected.remove(token);
  }
  std::vector<std::string> words;
  for (ssize_t type : expected.toList()) {
    if (type != static_cast<ssize_t>(antlr4::Token::EOF))
      words.push_back(DescribeToken(parser, static_cast<std::size_t>(type)));
  }
  words.insert(words.end(), phrases.begin(), phrases.end());
  if (expected.contains(antlr4::Token::EOF)) words.emplace_back("the end of the spec");
  return JoinWithOr(words);
}

// The parser leaves the rules of an expression before it misses a bracket, so the set it then gives lacks the comma.
IntervalSet WithComma(const antlr4::Parser& parser, IntervalSet expected) {
  const auto* rule = const_cast<antlr4::Parser&>(parser).getContext();
  bool lists = rule != nullptr && (rule->getRuleIndex() == UcpParser::RuleShape ||
                                   dynamic_cast<const UcpParser::ListContext*>(rule) != nullptr ||
                                   dynamic_cast<const UcpParser::IndexContext*>(rule) != nullptr);
  if (lists && expected.size() == 1 && expected.contains(static_cast<std::size_t>(UcpParser::RIGHT_BRACKET))) {
    expected.add(UcpParser::COMMA);
  }
  return expected;
}

// `offset` is a name wherever one may stand, and nobody misses it there.
IntervalSet WithoutNames(IntervalSet expected) {
  if (expected.contains(static_cast<std::size_t>(UcpParser::NAME)))
    expected.remove(static_cast<std::size_t>(UcpParser::OFFSET));
  return expected;
}

// The type of the keyword that a name is a misspelling of.
std::optional<std::size_t> MisspeltKeyword(const antlr4::Parser& parser, const IntervalSet& expected,
                                           const antlr4::Token& token) {
  if (token.getType() != UcpParser::NAME) return std::nullopt;
  std::vector<std::string> keywords;
  std::vector<std::size_t> types;
  for (ssize_t signed_type : expected.toList()) {
    auto type = static_cast<std::size_t>(signed_type);
    if (!IsKeyword(type)) continue;
    keywords.push_back(Spelling(parser, type));
    types.push_back(type);
  }
  auto nearest = NearestWord(token.getText(), keywords);
  if (!nearest) return std::nullopt;
  return types[static_cast<std::size_t>(std::find(keywords.begin(), keywords.end(), *nearest) - keywords.begin())];
}

}  // namespace

SyntaxErrors::SyntaxErrors(const Source& source, DiagnosticSink& sink, std::set<std::uint32_t> spoiled_lines)
    : source_(source), sink_(sink), spoiled_lines_(std::move(spoiled_lines)) {}

void SyntaxErrors::reportNoViableAlternative(antlr4::Parser* parser, const antlr4::NoViableAltException& error) {
  Report(*parser, *error.getOffendingToken(), error.getExpectedTokens());
}

void SyntaxErrors::reportInputMismatch(antlr4::Parser* parser, const antlr4::InputMismatchException& error) {
  Report(*parser, *error.getOffendingToken(), error.getExpectedTokens());
}

void SyntaxErrors::reportUnwantedToken(antlr4::Parser* parser) {
  if (inErrorRecoveryMode(parser)) return;
  beginErrorCondition(parser);
  Report(*parser, *parser->getCurrentToken(), getExpectedTokens(parser));
}

void SyntaxErrors::reportMissingToken(antlr4::Parser* parser) { reportUnwantedToken(parser); }

void SyntaxErrors::sync(antlr4::Parser* parser) {
  switch (parser->getContext()->getRuleIndex()) {
    case UcpParser::RuleFile:
    case UcpParser::RuleBody:
    case UcpParser::RuleModel:
    case UcpParser::RuleStrategy:
      SkipToNext(*parser);
      break;
    default:
      DefaultErrorStrategy::sync(parser);
  }
}

// To the next declaration, item or setting, to the end of their list, or to a declaration that shows that a brace is
// missing. A word that is nearly the right keyword, and begins a line or stands where the list goes on, is taken for
// it.
void SyntaxErrors::SkipToNext(antlr4::Parser& parser) {
  const IntervalSet expected = parser.getExpectedTokens();
  IntervalSet stops = expected;
  for (std::size_t type :
       {UcpParser::DIM, UcpParser::FACT, UcpParser::MESH, UcpParser::LAYOUT, UcpParser::MODEL, UcpParser::STRATEGY}) {
    stops.add(static_cast<ssize_t>(type));
  }
  antlr4::TokenStream& tokens = *parser.getTokenStream();
  while (!expected.contains(tokens.LA(1))) {
    reportUnwantedToken(&parser);
    if (RepairKeyword(parser, expected) || tokens.LA(1) == antlr4::Token::EOF || stops.contains(tokens.LA(1))) return;
    do {
      parser.consume();
    } while (tokens.LA(1) != antlr4::Token::EOF && !stops.contains(tokens.LA(1)) &&
             !BeginsWithKeyword(parser, expected));
    if (tokens.LA(1) == UcpParser::NAME) endErrorCondition(&parser);
  }
}

bool SyntaxErrors::RepairKeyword(antlr4::Parser& parser, const IntervalSet& keywords) const {
  antlr4::Token& token = *parser.getCurrentToken();
  auto keyword = MisspeltKeyword(parser, keywords, token);
  if (!keyword) return false;
  static_cast<antlr4::WritableToken&>(token).setType(*keyword);
  return true;
}

antlr4::Token* SyntaxErrors::recoverInline(antlr4::Parser* parser) {
  antlr4::Token* found = parser->getCurrentToken();
  IntervalSet expected = WithoutNames(getExpectedTokens(parser));
  bool wants_name = expected.size() == 1 && expected.contains(static_cast<std::size_t>(UcpParser::NAME));
  if (!wants_name || !IsKeyword(found->getType())) return DefaultErrorStrategy::recoverInline(parser);
  reportMissingToken(parser);
  if (!IsOnLineOfPrevious(*parser)) return getMissingSymbol(parser);
  reportMatch(parser);
  parser->consume();
  return found;
}

antlr4::Token* SyntaxErrors::singleTokenDeletion(antlr4::Parser* parser) {
  switch (parser->getCurrentToken()->getType()) {
    case UcpParser::RIGHT_BRACE:
    case UcpParser::RIGHT_BRACKET:
    case UcpParser::RIGHT_PAREN:
    case UcpParser::HOLE_END:
    case UcpParser::CLOSING_QUOTE:
      return nullptr;
    default:
      return DefaultErrorStrategy::singleTokenDeletion(parser);
  }
}

bool SyntaxErrors::IsOnLineOfPrevious(antlr4::Parser& parser) const {
  antlr4::Token* before = parser.getTokenStream()->LT(-1);
  if (before == nullptr) return false;
  return source_.LineOf(RangeOf(*before).begin) == source_.LineOf(RangeOf(*parser.getCurrentToken()).begin);
}

bool SyntaxErrors::BeginsWithKeyword(antlr4::Parser& parser, const IntervalSet& keywords) const {
  return !IsOnLineOfPrevious(parser) && MisspeltKeyword(parser, keywords, *parser.getCurrentToken()).has_value();
}

// A mistake that was reported already is often noticed by the parser one token later, on another line.
bool SyntaxErrors::IsSpoiled(antlr4::Parser& parser, SourceRange place) const {
  if (spoiled_lines_.contains(source_.LineOf(place.begin))) return true;
  antlr4::Token* before = parser.getTokenStream()->LT(-1);
  return before != nullptr && spoiled_lines_.contains(source_.LineOf(RangeOf(*before).begin));
}

std::string SyntaxErrors::HintFor(antlr4::Parser& parser, const antlr4::Token& found,
                                  const IntervalSet& expected) const {
  if (expected.contains(static_cast<std::size_t>(UcpParser::UCP))) {
    return "a spec begins with `ucp 1`, the version of the language";
  }
  antlr4::Token* before = parser.getTokenStream()->LT(-1);
  if (before != nullptr && (before->getType() == UcpParser::OPTIONAL || before->getType() == UcpParser::BUFFER)) {
    return "`" + before->getText() + "` stands before the name of its tensor";
  }
  // Behind a declaration or a tensor, what could have continued it.
  IntervalSet keywords = expected;
  bool behind_tensor = expected.contains(static_cast<std::size_t>(UcpParser::BLOCK));
  bool behind_declaration = expected.contains(static_cast<std::size_t>(UcpParser::LAYOUT));
  for (auto type : {UcpParser::AT, UcpParser::MEAN, UcpParser::SCALE, UcpParser::OFFSET, UcpParser::ELSE}) {
    if (behind_tensor) keywords.add(static_cast<ssize_t>(type));
  }
  for (auto type : {UcpParser::FROM, UcpParser::WHEN, UcpParser::ELSE}) {
    if (behind_declaration) keywords.add(static_cast<ssize_t>(type));
  }
  auto keyword = MisspeltKeyword(parser, keywords, found);
  return keyword ? fmt::format("did you mean `{}`?", Spelling(parser, *keyword)) : "";
}

void SyntaxErrors::Report(antlr4::Parser& parser, const antlr4::Token& found, const IntervalSet& expected_tokens) {
  ++count_;
  SourceRange place = PlaceOf(found);
  if (!IsSpoiled(parser, place)) {
    IntervalSet expected = WithComma(parser, WithoutNames(expected_tokens));
    bool at_end = found.getType() == antlr4::Token::EOF;
    std::string seen = at_end ? "the end of the spec" : fmt::format("`{}`", source_.TextOf(place));
    bool reserved = IsKeyword(found.getType()) && expected.contains(static_cast<std::size_t>(UcpParser::NAME)) &&
                    IsOnLineOfPrevious(parser);
    Diagnostic diagnostic{.kind = reserved ? DiagnosticKind::kReservedWord : DiagnosticKind::kUnexpectedToken,
                          .place = place,
                          .message = fmt::format("expected {}, found {}{}", DescribeExpected(parser, expected), seen,
                                                 reserved ? ", which is a word of the language" : ""),
                          .hint = HintFor(parser, found, expected)};
    bool misses_brace = at_end || (found.getType() >= UcpParser::DIM && found.getType() <= UcpParser::STRATEGY);
    if (misses_brace && parser.getContext()->getRuleIndex() == UcpParser::RuleBody) {
      diagnostic.notes.push_back({RangeOf(*parser.getContext()->getStart()), "this brace is not closed"});
    }
    sink_.Report(std::move(diagnostic));
  }
  if (count_ == kMaxSyntaxErrors) {
    sink_.Report({.kind = DiagnosticKind::kTooManyErrors,
                  .place = place,
                  .message = fmt::format("stopped after {} syntax errors", kMaxSyntaxErrors)});
    throw antlr4::ParseCancellationException();
  }
}

// A string is shown whole if it is short; of anything long, the beginning.
SourceRange SyntaxErrors::PlaceOf(const antlr4::Token& found) const {
  SourceRange range = RangeOf(found);
  if (found.getType() == UcpParser::QUOTE) {
    SourceRange line = source_.LineAt(range.begin);
    std::size_t closing = source_.text().find('"', range.end);
    if (closing < line.end) range.end = static_cast<std::uint32_t>(closing) + 1;
  }
  if (range.end - range.begin > kShownBytes) {
    range.end = range.begin + kShownBytes;
    while ((static_cast<unsigned char>(source_.text()[range.end]) & 0xC0u) == 0x80u) --range.end;
  }
  return range;
}

}  // namespace ucp
