// Syntax errors in the words of the language: the word that was found, the words that could have stood there, and the
// keyword that was probably meant. Private to this folder.
#pragma once

#include <antlr4-runtime.h>

#include <set>
#include <string>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

// Recovers as ANTLR does: leaves out one token, makes up one, or skips to where an enclosing rule can go on. The
// difference: lists of declarations and items always go on, where ANTLR would leave the list at a wrong first token; a
// misspelt keyword that begins one of them is taken for the keyword; a word of the language in the place of a name is
// taken for that name, unless it begins a line; and a closing bracket is never left out. After kMaxSyntaxErrors it
// gives up with antlr4::ParseCancellationException.
class SyntaxErrors : public antlr4::DefaultErrorStrategy {
 public:
  static constexpr std::size_t kMaxSyntaxErrors = 50;

  // Says nothing about `spoiled_lines`, which have an error already.
  SyntaxErrors(const Source& source, DiagnosticSink& sink, std::set<std::uint32_t> spoiled_lines);

  // Returns how many were found, reported or not.
  std::size_t count() const { return count_; }

 protected:
  void reportNoViableAlternative(antlr4::Parser* parser, const antlr4::NoViableAltException& error) override;
  void reportInputMismatch(antlr4::Parser* parser, const antlr4::InputMismatchException& error) override;
  void reportUnwantedToken(antlr4::Parser* parser) override;
  void reportMissingToken(antlr4::Parser* parser) override;
  void sync(antlr4::Parser* parser) override;
  antlr4::Token* recoverInline(antlr4::Parser* parser) override;
  antlr4::Token* singleTokenDeletion(antlr4::Parser* parser) override;

 private:
  void SkipToNext(antlr4::Parser& parser);
  bool RepairKeyword(antlr4::Parser& parser, const antlr4::misc::IntervalSet& keywords) const;
  bool BeginsWithKeyword(antlr4::Parser& parser, const antlr4::misc::IntervalSet& keywords) const;
  bool IsOnLineOfPrevious(antlr4::Parser& parser) const;
  bool IsSpoiled(antlr4::Parser& parser, SourceRange place) const;
  std::string HintFor(antlr4::Parser& parser, const antlr4::Token& found,
                      const antlr4::misc::IntervalSet& expected) const;
  void Report(antlr4::Parser& parser, const antlr4::Token& found, const antlr4::misc::IntervalSet& expected);
  SourceRange PlaceOf(const antlr4::Token& found) const;

  const Source& source_;
  DiagnosticSink& sink_;
  std::set<std::uint32_t> spoiled_lines_;
  std::size_t count_ = 0;
};

}  // namespace ucp
