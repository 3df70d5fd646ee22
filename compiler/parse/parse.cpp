// Bytes to tokens, tokens to ANTLR's parse tree, that to ours.
//
// The grammar needs one token to decide anything, so the parser never predicts, and one pass serves correct and wrong
// specs alike. This folder is the only place that knows ANTLR.
#include "compiler/parse/parse.h"

#include <UcpLexer.h>
#include <UcpParser.h>

#include <memory>
#include <utility>

#include "compiler/parse/byte_stream.h"
#include "compiler/parse/syntax_errors.h"
#include "compiler/parse/tokens.h"
#include "compiler/parse/tree_builder.h"

namespace ucp {

std::optional<ast::File> ParseSpec(const Source& source, DiagnosticSink& sink) {
  std::size_t errors_before = sink.error_count();
  std::optional<ast::File> tree = ParseSoundItems(source, sink);
  return sink.error_count() == errors_before ? std::move(tree) : std::nullopt;
}

std::optional<ast::File> ParseSoundItems(const Source& source, DiagnosticSink& sink, std::uint32_t begin) {
  std::size_t errors_before = sink.error_count();
  ByteStream bytes(source.text());
  bytes.seek(begin);
  grammar::UcpLexer lexer(&bytes);
  lexer.removeErrorListeners();
  TokenList list = ReadTokens(lexer, source, sink);
  if (!list.complete) return std::nullopt;

  antlr4::ListTokenSource token_source(std::move(list.tokens));
  antlr4::CommonTokenStream tokens(&token_source);
  grammar::UcpParser parser(&tokens);
  parser.removeErrorListeners();
  auto errors = std::make_shared<SyntaxErrors>(source, sink, std::move(list.spoiled_lines));
  parser.setErrorHandler(errors);
  grammar::UcpParser::FileContext* file = nullptr;
  try {
    file = parser.file();
  } catch (const antlr4::ParseCancellationException&) {
    return std::nullopt;
  }
  if (errors->count() != 0 || sink.error_count() != errors_before) return std::nullopt;

  ast::File tree = BuildTree(*file, source, sink);
  if (tree.version != kLanguageVersion) return std::nullopt;
  return tree;
}

}  // namespace ucp
