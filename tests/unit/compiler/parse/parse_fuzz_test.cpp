// Seeded, bounded fuzzing: mutations of a spec that uses the whole grammar. Whatever the text, the parser ends, and a
// compiler that refuses has said why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "compiler/ast/print.h"
#include "compiler/diagnostics/render.h"
#include "compiler/parse/parse.h"

namespace ucp {
namespace {

constexpr const char* kSeedSpec = R"(ucp 1
include "common.ucp"
dim ffn from args.ffn_hidden_size, config.0.dim when gqa and not tied else 4 * hidden
dim head = hidden / heads % 7
fact kinds from config.layer_types else ["moe", "dense"]
mesh pp, dp, tp
layout gpt of m {
  "embed.{weight|bias}" [pad(vocab, grain * tp)@tp, hidden] at pp.first, unused pp.last, pp[2]
  block "{i+3: layers@pp}" at pp.last {
    "qkv" = [kv_heads@tp(spread 64) * (q: group * head + k: head), (2 * ffn@tp)@(dp, cp)(chunk)] mean@tp scale(1 / tp)
    when i < dense { "{i.local + 1: layers}" [ffns[i]] } else when kinds[i] == "moe" or has "x.{i}" { drop "y" }
    else { tie "a" = "b" optional "c" [] interleave = 2 }
  }
}
model m { q [a * b] k [c] }
strategy s { format deepspeed; tp = 4 pp = [8, 8, 6]; interleave = 2 }
)";

const std::vector<std::string>& Fragments() {
  static const std::vector<std::string> fragments = {"(",
                                                     ")",
                                                     "[",
                                                     "]",
                                                     "{",
                                                     "}",
                                                     "\"",
                                                     "{i: ",
                                                     "@",
                                                     "@tp",
                                                     "|",
                                                     "//",
                                                     "\n",
                                                     "\r",
                                                     ",",
                                                     ";",
                                                     ":",
                                                     ".",
                                                     "=",
                                                     "==",
                                                     "ucp",
                                                     "dim ",
                                                     "layout ",
                                                     "when ",
                                                     "else ",
                                                     "optional ",
                                                     "at ",
                                                     "unused ",
                                                     "not ",
                                                     "has ",
                                                     "include ",
                                                     "99999999999999999999",
                                                     "0x",
                                                     "é",
                                                     "\xEF\xBB\xBF",
                                                     "漢",
                                                     "dmi ",
                                                     "lay ",
                                                     "\t",
                                                     "block \"b\" {",
                                                     "strategy s {",
                                                     "model ",
                                                     "mean@",
                                                     "pad("};
  return fragments;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string Mutate(std::string text) {
    for (std::size_t i = 0, count = 1 + Below(6); i < count; ++i) MutateOnce(text);
    return text;
  }

 private:
  std::size_t Below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }

  void MutateOnce(std::string& text) {
    std::size_t at = Below(text.size() + 1);
    std::size_t length = std::min(text.size() - at, Below(20));
    switch (Below(5)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, Fragments()[Below(Fragments().size())]);
        break;
      case 2:
        text.insert(Below(text.size() + 1), text.substr(at, length));
        break;
      case 3:
        text.insert(at, 1, static_cast<char>(1 + Below(127)));
        break;
      default:
        if (Below(10) == 0) text.resize(at);
    }
  }

  std::mt19937 random_;
};

void ParseAndExpectAnAnswer(const std::string& text) {
  auto source = Source::FromText("fuzz.ucp", text);
  if (!source) {  // A mutation can cut a character in two.
    llvm::consumeError(source.takeError());
    return;
  }
  DiagnosticSink sink;
  auto file = ParseSpec(*source, sink);
  ASSERT_EQ(file.has_value(), !sink.has_errors()) << text;
  for (const Diagnostic& diagnostic : sink.Sorted()) {
    ASSERT_LE(diagnostic.place.range.begin, diagnostic.place.range.end) << text;
    ASSERT_FALSE(diagnostic.message.empty());
    bool names_nothing = diagnostic.message.find("``") != std::string::npos && text.find('`') == std::string::npos;
    ASSERT_FALSE(names_nothing) << diagnostic.message << "\n" << text;
  }
  ASSERT_EQ(RenderText(*source, sink).empty(), file.has_value());
  if (file) {
    ASSERT_FALSE(ast::Print(*file).empty());
  }
}

TEST(ParseFuzzTest, TheSeedIsAccepted) {
  DiagnosticSink sink;
  auto source = llvm::cantFail(Source::FromText("seed.ucp", kSeedSpec));
  EXPECT_TRUE(ParseSpec(source, sink)) << RenderText(source, sink);
}

TEST(ParseFuzzTest, MutationsAreParsedOrRefusedWithAReason) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ParseAndExpectAnAnswer(Mutator(seed).Mutate(kSeedSpec));
    if (HasFatalFailure()) return;
  }
}

TEST(ParseFuzzTest, EveryPrefixIsParsedOrRefusedWithAReason) {
  std::string text = kSeedSpec;
  for (std::size_t length = 0; length <= text.size(); ++length) {
    SCOPED_TRACE(fmt::format("length {}", length));
    ParseAndExpectAnAnswer(text.substr(0, length));
    if (HasFatalFailure()) return;
  }
}

TEST(ParseFuzzTest, SoupOfFragmentsIsRefusedWithAReason) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    std::string text = "ucp 1 ";
    for (int i = 0; i < 60; ++i) text += Fragments()[random() % Fragments().size()];
    ParseAndExpectAnAnswer(text);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ucp
