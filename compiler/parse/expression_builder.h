// From ANTLR's parse tree to our tree: expressions and the name patterns inside strings. Chains of one operand
// disappear, and what the grammar is too generous about is refused. Private to this folder.
#pragma once

#include <UcpParser.h>

#include <optional>
#include <string>

#include "compiler/ast/ast.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

SourceRange RangeOf(antlr4::ParserRuleContext& rule);
ast::Identifier BuildIdentifier(antlr4::ParserRuleContext& rule);

// Works on trees without syntax errors only. After an error it returns a stand-in, for the tree will be thrown away.
class ExpressionBuilder {
 public:
  using Parser = grammar::UcpParser;

  // A bracket makes some five levels at most, so this never bites before kMaxBracketDepth in specs that people write.
  static constexpr std::size_t kMaxTreeDepth = 1000;

  ExpressionBuilder(const Source& source, DiagnosticSink& sink) : source_(source), sink_(sink) {}

  ast::Expr Build(Parser::ExprContext& rule);
  ast::NamePattern BuildPattern(Parser::StringContext& rule);
  std::string BuildPlainText(Parser::StringContext& rule);
  std::int64_t BuildNumber(antlr4::Token& token);
  std::vector<ast::Identifier> BuildAxes(Parser::AxesContext& rule);
  std::vector<ast::Expr> BuildElements(Parser::ElementsContext* rule);  // None for nullptr.
  // The part and the shape of `part [dims]`; nothing if the expression is another one.
  std::optional<ast::Tensor> BuildPartInOrder(Parser::ExprContext& rule);

 private:
  ast::Expr BuildConjunction(Parser::ConjunctionContext& rule);
  ast::Expr BuildNegation(Parser::NegationContext& rule);
  ast::Expr BuildComparison(Parser::ComparisonContext& rule);
  ast::Expr BuildSum(Parser::SumContext& rule);
  ast::Term BuildTerm(Parser::TermContext& rule);
  ast::Expr BuildProduct(Parser::ProductContext& rule);
  ast::Expr BuildCut(Parser::CutContext& rule);
  void AddCut(ast::Expr& operand, Parser::CuttingContext& rule);
  void SetCutRule(ast::Cut& cut, Parser::CuttingContext& rule);
  ast::Expr BuildPrimary(Parser::PrimaryContext& rule);
  ast::Expr BuildReference(Parser::ReferenceContext& rule);
  ast::ExprNode BuildCall(ast::Identifier function, Parser::CallContext& rule, SourceRange range);

  void RefuseWildcard(SourceRange text);
  ast::NamePiece BuildAlternatives(antlr4::Token& token);
  ast::NamePiece BuildHole(Parser::HoleContext& rule);
  std::optional<ast::Capture> BuildCounter(Parser::OffsetContext& rule);
  ast::Expr BuildOffset(Parser::OffsetContext& rule, bool without_first);

  void Report(DiagnosticKind kind, SourceRange range, std::string message, std::string hint = {});

  const Source& source_;
  DiagnosticSink& sink_;
  std::size_t depth_ = 0;
};

}  // namespace ucp
