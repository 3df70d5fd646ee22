// Properties that golden files (tests/golden/parse) cannot show: exact ranges, bounds, speed, and threads.
#include "compiler/parse/parse.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <ctime>
#include <thread>
#include <vector>

#include "compiler/ast/print.h"

namespace ucp {
namespace {

Source Spec(std::string text) { return llvm::cantFail(Source::FromText("a.ucp", std::move(text))); }

std::vector<std::string> KindsOf(const std::string& text) {
  DiagnosticSink sink;
  Source source = Spec(text);
  bool parsed = ParseSpec(source, sink).has_value();
  std::vector<std::string> kinds;
  for (const Diagnostic& diagnostic : sink.Sorted()) kinds.emplace_back(Describe(diagnostic.kind).name);
  if (parsed) kinds.emplace_back("parsed");
  return kinds;
}

std::string Repeat(const std::string& text, std::size_t times) {
  std::string repeated;
  for (std::size_t i = 0; i < times; ++i) repeated += text;
  return repeated;
}

TEST(ParseTest, RangesAreExactToTheByte) {
  Source source = Spec("ucp 1\nlayout x {\n  \"é.{i + 3: layers@pp}\" [(2 * ffn)@tp(spread 64)] at pp.first\n}\n");
  DiagnosticSink sink;
  auto file = ParseSpec(source, sink);
  ASSERT_TRUE(file);
  const auto& layout = std::get<ast::Layout>(file->declarations[0].node);
  const ast::Item& item = layout.items[0];
  const auto& tensor = std::get<ast::Tensor>(item.node);
  EXPECT_EQ(source.TextOf(item.range), "\"é.{i + 3: layers@pp}\" [(2 * ffn)@tp(spread 64)] at pp.first");
  EXPECT_EQ(source.TextOf(tensor.name.range), "\"é.{i + 3: layers@pp}\"");
  EXPECT_EQ(source.TextOf(std::get<ast::Literal>(tensor.name.pieces[0]).range), "é.");
  const auto& capture = std::get<ast::Capture>(tensor.name.pieces[1]);
  EXPECT_EQ(source.TextOf(capture.range), "{i + 3: layers@pp}");
  EXPECT_EQ(source.TextOf(capture.counter.range), "i");
  EXPECT_EQ(source.TextOf(capture.offset->range), "3");
  EXPECT_EQ(source.TextOf(capture.count.range), "layers@pp");
  const ast::Expr& dimension = tensor.shape.dimensions[0];
  EXPECT_EQ(source.TextOf(dimension.range), "(2 * ffn)@tp(spread 64)");
  const auto& cut = std::get<ast::Cut>(dimension.node);
  EXPECT_EQ(source.TextOf(cut.operand->range), "(2 * ffn)");
  EXPECT_TRUE(cut.operand->parenthesized);
  EXPECT_EQ(source.TextOf(cut.cut_range), "@tp(spread 64)");
  EXPECT_EQ(source.TextOf(cut.rule_range), "spread 64");
  EXPECT_EQ(source.TextOf(tensor.stages->range), "at pp.first");
}

TEST(ParseTest, ByteOrderMarkAndWindowsLineBreaksAreFine) {
  EXPECT_THAT(KindsOf("\xEF\xBB\xBFucp 1\r\ndim a = 1 // comment\r\n"), testing::ElementsAre("parsed"));
}

TEST(ParseTest, ACommentMayEndTheSpec) { EXPECT_THAT(KindsOf("ucp 1 // end"), testing::ElementsAre("parsed")); }

TEST(ParseTest, AStringMayBeCutOffByTheEnd) {
  EXPECT_THAT(KindsOf("ucp 1 include \"a"), testing::ElementsAre("unterminated-string"));
  EXPECT_THAT(KindsOf("ucp 1 drop \"{"), testing::Contains("unterminated-string"));
}

TEST(ParseTest, TheEmptySpecIsRefused) { EXPECT_THAT(KindsOf(""), testing::ElementsAre("unexpected-token")); }

TEST(ParseTest, BracketsNestTwoHundredDeep) {
  auto nested = [](std::size_t depth) { return "ucp 1 dim a = " + Repeat("(", depth) + "1" + Repeat(")", depth); };
  EXPECT_THAT(KindsOf(nested(200)), testing::ElementsAre("parsed"));
  EXPECT_THAT(KindsOf(nested(201)), testing::ElementsAre("nesting-too-deep"));
  EXPECT_THAT(KindsOf(nested(1'000'000)), testing::ElementsAre("nesting-too-deep"));
  EXPECT_THAT(KindsOf("ucp 1 layout x " + Repeat("{ block \"a\"", 100'000)), testing::ElementsAre("nesting-too-deep"));
}

TEST(ParseTest, PrefixesAndCutsDoNotNestWithoutBound) {
  EXPECT_THAT(KindsOf("ucp 1 fact a = " + Repeat("not ", 100'000) + "b"), testing::ElementsAre("nesting-too-deep"));
  EXPECT_THAT(KindsOf("ucp 1 dim a = b" + Repeat("@tp", 100'000)), testing::ElementsAre("nesting-too-deep"));
  std::string mixed = Repeat("(not not not not ", 190) + "a" + Repeat("@tp)", 190);
  EXPECT_THAT(KindsOf("ucp 1 fact a = " + mixed), testing::Contains("nesting-too-deep"));
}

TEST(ParseTest, LongChainsAreFlat) {
  EXPECT_THAT(KindsOf("ucp 1 dim a = 1" + Repeat(" * 1", 100'000)), testing::ElementsAre("parsed"));
  EXPECT_THAT(KindsOf("ucp 1 dim a = 1" + Repeat(" + 1", 100'000)), testing::ElementsAre("parsed"));
  EXPECT_THAT(KindsOf("ucp 1 layout x { when a {}" + Repeat(" else when b {}", 20'000) + "}"),
              testing::ElementsAre("parsed"));
}

TEST(ParseTest, ManyTokensAreRefusedBeforeTheyFillTheMemory) {
  EXPECT_THAT(KindsOf("ucp 1 dim a = " + Repeat("1+", 600'000)), testing::ElementsAre("too-many-errors"));
}

TEST(ParseTest, StopsAfterFiftySyntaxErrors) {
  std::vector<std::string> kinds = KindsOf("ucp 1\n" + Repeat("dim = 1\n", 1000));
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), "unexpected-token"), 50);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), "too-many-errors"), 1);
}

// Lines like those of a real spec.
std::string LargeSpec(std::size_t lines) {
  std::string text = "ucp 1\ndim hidden from args.hidden_size\nmesh pp, dp, tp\nlayout large {\n";
  for (std::size_t i = 0; i < lines; i += 4) {
    text += fmt::format("  \"model.layers.{}.norm.{{weight|bias}}\"   [hidden]\n", i);
    text +=
        fmt::format("  \"model.{}.{{i + 3: layers@pp}}.qkv.weight\"  [heads@tp * 3 * head, hidden]  // q, k, v\n", i);
    text += fmt::format("  \"model.layers.{}.mlp.up.weight\"         [ffn@tp, hidden] at pp.last\n", i);
    text += fmt::format("  \"model.layers.{}.mlp.down.weight\"       [hidden, (2 * ffn)@tp]\n", i);
  }
  return text + "}\n";
}

// Printed and not asserted: a shared machine has no clock worth failing for.
TEST(ParseTest, Measures5000Lines) {
  Source source = Spec(LargeSpec(5000));
  for (const char* run : {"cold", "warm"}) {
    DiagnosticSink sink;
    std::clock_t begin = std::clock();
    auto file = ParseSpec(source, sink);
    double milliseconds = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    ASSERT_TRUE(file);
    EXPECT_EQ(std::get<ast::Layout>(file->declarations.back().node).items.size(), 5000u);
    fmt::print("{}: {} bytes, 5000 lines in {:.1f} ms of CPU time\n", run, source.text().size(), milliseconds);
  }
}

TEST(ParseTest, ThreadsParseAtTheSameTime) {
  Source source = Spec(LargeSpec(100));
  DiagnosticSink first_sink;
  std::string expected = ast::Print(*ParseSpec(source, first_sink));
  std::vector<int> equal(4, 0);
  std::vector<std::jthread> threads;
  for (int& result : equal) {
    threads.emplace_back([&source, &expected, &result] {
      DiagnosticSink sink;
      auto file = ParseSpec(source, sink);
      result = file && ast::Print(*file) == expected ? 1 : 0;
    });
  }
  threads.clear();
  EXPECT_THAT(equal, testing::Each(1));
}

}  // namespace
}  // namespace ucp
