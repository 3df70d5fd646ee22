#include "compiler/parse/tokens.h"

#include <UcpLexer.h>
#include <fmt/format.h>

#include <utility>

namespace ucp {
namespace {

using grammar::UcpLexer;

class TokenReader {
 public:
  TokenReader(const Source& source, DiagnosticSink& sink) : source_(source), sink_(sink) {}

  TokenList Read(antlr4::TokenSource& lexer) {
    while (list_.complete) {
      std::unique_ptr<antlr4::Token> token = lexer.nextToken();
      std::size_t type = token->getType();
      if (Accept(*token)) list_.tokens.push_back(std::move(token));
      if (type == antlr4::Token::EOF) break;
    }
    return std::move(list_);
  }

 private:
  // Whether the parser shall see the token.
  bool Accept(antlr4::Token& token) {
    SourceRange range = RangeOf(token);
    switch (token.getType()) {
      case UcpLexer::QUOTE:
        open_quote_ = range;
        break;
      case UcpLexer::CLOSING_QUOTE:
        open_quote_ = {};
        break;
      case UcpLexer::UNTERMINATED:
        ReportUnterminated();
        static_cast<antlr4::WritableToken&>(token).setType(UcpLexer::CLOSING_QUOTE);
        break;
      case antlr4::Token::EOF:
        if (!open_quote_.empty()) ReportUnterminated();
        break;
      case UcpLexer::UNKNOWN:
        Report(DiagnosticKind::kUnknownCharacter, range,
               fmt::format("the language does not use `{}` here", source_.TextOf(range)), "");
        return false;
      case UcpLexer::STRAY:
        Report(DiagnosticKind::kBadNamePattern, range,
               fmt::format("`{}` stands in a name outside of braces", source_.TextOf(range)),
               "alternatives are written in braces, as in `{weight|bias}`");
        return false;
      default:
        CountBrackets(token.getType(), range);
    }
    if (list_.tokens.size() >= kMaxTokens) {
      Stop(DiagnosticKind::kTooManyErrors, range, fmt::format("the spec goes on after {} words", kMaxTokens));
    }
    return true;
  }

  void CountBrackets(std::size_t type, SourceRange range) {
    if (type == UcpLexer::LEFT_BRACE || type == UcpLexer::LEFT_BRACKET || type == UcpLexer::LEFT_PAREN) ++depth_;
    bool closes = type == UcpLexer::RIGHT_BRACE || type == UcpLexer::RIGHT_BRACKET || type == UcpLexer::RIGHT_PAREN;
    if (closes && depth_ > 0) --depth_;
    if (depth_ > kMaxBracketDepth) {
      Stop(DiagnosticKind::kNestingTooDeep, range, fmt::format("brackets nest deeper than {}", kMaxBracketDepth));
    }
  }

  void ReportUnterminated() {
    Report(DiagnosticKind::kUnterminatedString, {open_quote_.begin, source_.LineAt(open_quote_.begin).end},
           "the string has no closing quote on its line", "");
    open_quote_ = {};
  }

  void Stop(DiagnosticKind kind, SourceRange range, std::string message) {
    Report(kind, range, std::move(message), "");
    list_.complete = false;
  }

  void Report(DiagnosticKind kind, SourceRange range, std::string message, std::string hint) {
    list_.spoiled_lines.insert(source_.LineOf(range.begin));
    sink_.Report({.kind = kind, .place = range, .message = std::move(message), .hint = std::move(hint)});
  }

  const Source& source_;
  DiagnosticSink& sink_;
  TokenList list_;
  std::size_t depth_ = 0;
  SourceRange open_quote_;
};

}  // namespace

SourceRange RangeOf(const antlr4::Token& token) {
  auto begin = static_cast<std::uint32_t>(token.getStartIndex());
  if (token.getType() == antlr4::Token::EOF) return {begin, begin};
  return {begin, static_cast<std::uint32_t>(token.getStopIndex()) + 1};
}

TokenList ReadTokens(antlr4::TokenSource& lexer, const Source& source, DiagnosticSink& sink) {
  return TokenReader(source, sink).Read(lexer);
}

}  // namespace ucp
