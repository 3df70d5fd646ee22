#include "compiler/diagnostics/render.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <llvm/Support/raw_ostream.h>

namespace ucp {
namespace {

using testing::HasSubstr;

Source Spec(std::string text) { return llvm::cantFail(Source::FromText("a.ucp", std::move(text))); }

Diagnostic Wrong(SourceRange range) {
  return {.kind = DiagnosticKind::kUnexpectedToken, .place = range, .message = "wrong"};
}

// The two lines below the message.
std::string Snippet(const std::string& text, SourceRange range, TextStyle style = {}) {
  std::string rendered = RenderText(Spec(text), Wrong(range), style);
  return rendered.substr(rendered.find('\n') + 1);
}

TEST(RenderTextTest, UnderlinesThePieceAndAddsNotesAndHints) {
  Source spec = Spec("dim ffn = 16\n\"w\" [ffn@tp]\n");
  Diagnostic diagnostic{.kind = DiagnosticKind::kUnexpectedToken,
                        .place = SourceRange{18, 24},
                        .message = "`ffn` is 16",
                        .notes = {{SourceRange{10, 12}, "from here"}, {Place::Elsewhere("mp_rank_00.pt"), "18 rows"}},
                        .hint = "first\nsecond"};
  EXPECT_EQ(RenderText(spec, diagnostic),
            "a.ucp:2:6: error: `ffn` is 16 [unexpected-token]\n"
            "  \"w\" [ffn@tp]\n"
            "       ^~~~~~\n"
            "a.ucp:1:11: note: from here\n"
            "  dim ffn = 16\n"
            "            ^~\n"
            "mp_rank_00.pt: note: 18 rows\n"
            "hint: first\n"
            "hint: second\n");
}

TEST(RenderTextTest, TabsAreBlanksAndWideCharactersTakeTwoColumns) {
  EXPECT_EQ(Snippet("\tx y", {3, 4}), "      x y\n        ^\n");
  EXPECT_EQ(Snippet("\"漢字\" x", {9, 10}), "  \"漢字\" x\n         ^\n");
  EXPECT_EQ(Snippet("\"漢字\" x", {1, 7}), "  \"漢字\" x\n   ^~~~\n");
  EXPECT_EQ(Snippet("\"é\" x", {5, 6}), "  \"é\" x\n      ^\n");
}

TEST(RenderTextTest, WhatATerminalWouldObeyIsNotPassedOn) {
  EXPECT_EQ(Snippet("a\033[2Jb", {5, 6}), "  a?[2Jb\n       ^\n");
}

TEST(RenderTextTest, APieceOfSeveralLinesIsUnderlinedToTheEndOfItsFirst) {
  EXPECT_EQ(Snippet("a [b,\n c]", {2, 9}), "  a [b,\n    ^~~\n");
}

TEST(RenderTextTest, TheEndOfTheTextHasAPlaceToo) {
  EXPECT_EQ(Snippet("ab\n", {3, 3}), "  \n  ^\n");
  EXPECT_EQ(Snippet("ab", {2, 2}), "  ab\n    ^\n");
}

TEST(RenderTextTest, LongLinesAreCutAroundThePiece) {
  std::string text = std::string(1000, 'a') + "XYZ" + std::string(1000, 'b');
  std::string snippet = Snippet(text, {1000, 1003}, {.columns = 40});
  std::string line = snippet.substr(0, snippet.find('\n'));
  std::string underline = snippet.substr(snippet.find('\n') + 1);
  EXPECT_THAT(line, HasSubstr("aXYZb"));
  EXPECT_THAT(line, testing::StartsWith("  …a"));
  EXPECT_THAT(line, testing::EndsWith("b…"));
  EXPECT_EQ(line.size(), 40u + 2 * (std::string("…").size() - 1));  // 40 columns; each `…` has more bytes than columns.
  EXPECT_EQ(underline.find("^~~\n"), line.find("XYZ") - 2);
}

TEST(RenderTextTest, APieceWiderThanTheLineIsCutItself) {
  std::string snippet = Snippet(std::string(500, 'x'), {100, 400}, {.columns = 30});
  EXPECT_THAT(snippet, HasSubstr("^~~~~"));
  for (std::size_t at = 0; at < snippet.size();) {
    std::size_t end = snippet.find('\n', at);
    EXPECT_LE(end - at, 30u + 4u);
    at = end + 1;
  }
}

// Every window, at every place of a line, shows the marked letter above the caret.
TEST(RenderTextTest, TheCaretStandsBelowItsLetter) {
  for (std::size_t length = 1; length < 60; ++length) {
    for (std::uint32_t at = 0; at < length; ++at) {
      std::string text(length, '.');
      text[at] = 'X';
      std::string snippet = Snippet(text, {at, at + 1}, {.columns = 24});
      std::size_t extra = snippet.find("…") < snippet.find('X') ? 2 : 0;
      EXPECT_EQ(snippet.find('X') - extra, snippet.find('^') - snippet.find('\n') - 1) << length << " " << at;
    }
  }
}

TEST(RenderTextTest, ColoursOnlyOnRequest) {
  EXPECT_THAT(RenderText(Spec("x"), Wrong({0, 1})), testing::Not(HasSubstr("\033")));
  EXPECT_THAT(RenderText(Spec("x"), Wrong({0, 1}), {.colours = true}), HasSubstr("\033[1;31merror:\033[0m"));
}

TEST(RenderTextTest, SaysHowManyWereTooMany) {
  DiagnosticSink sink;
  std::string text(DiagnosticSink::kMaxKept + 3, 'x');
  for (std::uint32_t i = 0; i < text.size(); ++i) sink.Report(Wrong({i, i + 1}));
  EXPECT_THAT(RenderText(Spec(text), sink), testing::EndsWith("a.ucp: and 3 more\n"));
}

TEST(RenderJsonTest, FollowsItsSchema) {
  Source spec = Spec("é x\n");
  DiagnosticSink sink;
  sink.Report({.kind = DiagnosticKind::kReservedWord,
               .place = SourceRange{3, 4},
               .message = "a \"message\"",
               .notes = {{Place::Elsewhere("m.pt"), "note"}},
               .hint = "try y"});
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::json::Value(RenderJson(spec, sink));
  EXPECT_EQ(
      out.str(),
      R"({"diagnostics":[{"hint":"try y","kind":"reserved-word","message":"a \"message\"",)"
      R"("notes":[{"message":"note","place":{"elsewhere":"m.pt"}}],)"
      R"("place":{"begin":3,"column":3,"end":4,"end_column":4,"end_line":1,"file":"a.ucp","line":1},"severity":"error"}],)"
      R"("dropped":0,"file":"a.ucp"})");
}

}  // namespace
}  // namespace ucp
