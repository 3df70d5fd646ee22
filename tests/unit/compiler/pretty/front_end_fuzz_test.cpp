// The front end as a whole on mutations of every spec of the repository: parser, checker and formatter end, a refusal
// has said why, and the form of what is accepted means the same and is its own form. The same for two files of which
// one includes the other. UCP_TEST_SECONDS=60 runs longer.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/ast/print.h"
#include "compiler/check/check_spec.h"
#include "compiler/diagnostics/render.h"
#include "compiler/parse/include.h"
#include "compiler/parse/parse.h"
#include "compiler/pretty/pretty.h"

namespace ucp {
namespace {

// Whole specs, and what the documents show of them.
std::vector<std::string> Seeds() {
  std::vector<std::string> paths;
  for (const char* folder : {"/specs", "/tests/golden", "/docs/diagnostics"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(UCP_SOURCE_DIR) + folder)) {
      if (entry.path().extension() == ".ucp" || entry.path().extension() == ".md")
        paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());  // A seed of the random numbers then means the same everywhere.
  std::vector<std::string> seeds;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    std::string spec = text.str();
    std::size_t block = spec.find("```ucp\n");
    if (block != std::string::npos) spec = spec.substr(block + 7, spec.find("\n```", block + 7) - block - 6);
    seeds.push_back(std::move(spec));
  }
  return seeds;
}

class Mutator {
 public:
  Mutator(unsigned seed, const std::vector<std::string>& seeds) : random_(seed), seeds_(seeds) {}

  std::string Make() {
    std::string text = seeds_[Below(seeds_.size())];
    for (std::size_t edits = Below(5); edits > 0; --edits) EditOnce(text);
    return text;
  }

 private:
  std::size_t Below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void EditOnce(std::string& text) {
    static constexpr const char* kPieces[] = {" ",
                                              "\n",
                                              "\r\n",
                                              "\n\n\n",
                                              "\t",
                                              "//",
                                              "// x\n",
                                              "\n// own line\n",
                                              "{",
                                              "}",
                                              "[",
                                              "]",
                                              "(",
                                              ")",
                                              "\"",
                                              "@tp",
                                              "@(tp, dp)",
                                              "(chunk)",
                                              "(spread 64)",
                                              ",",
                                              ";",
                                              ":",
                                              ".",
                                              "=",
                                              "==",
                                              " - ",
                                              " + ",
                                              "*",
                                              "when x { ",
                                              "} else { ",
                                              "optional ",
                                              "buffer ",
                                              "at pp.last",
                                              "mean@tp",
                                              "dim a",
                                              "fact f = ",
                                              "\"n\" [a] ",
                                              "block \"b\" { ",
                                              "not ",
                                              "kinds[i]",
                                              "length(kinds)",
                                              " in ",
                                              "has \"n\"",
                                              "include \"part.ucp\" ",
                                              "9",
                                              "\xEF\xBB\xBF",
                                              "é"};
    std::size_t at = Below(text.size() + 1);
    switch (Below(5)) {
      case 0:
        text.erase(at, Below(12));
        break;
      case 1:
      case 2:
        text.insert(at, kPieces[Below(std::size(kPieces))]);
        break;
      case 3: {  // A part of another spec.
        const std::string& other = seeds_[Below(seeds_.size())];
        text.insert(at, other.substr(Below(other.size()), Below(60)));
        break;
      }
      default:
        text.insert(at, text.substr(Below(text.size()), Below(40)));
    }
  }

  std::mt19937 random_;
  const std::vector<std::string>& seeds_;
};

std::string WithoutBlanks(std::string_view text) {
  std::string rest;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("\xEF\xBB\xBF")) {
      i += 2;
    } else if (std::string_view(" \t\r\n").find(text[i]) == std::string_view::npos) {
      rest += text[i];
    }
  }
  return rest;
}

void ExpectAForm(const Source& source, const ast::File& file) {
  std::string form = Pretty(source, file);
  ASSERT_EQ(WithoutBlanks(form), WithoutBlanks(source.text()));
  auto formatted = llvm::cantFail(Source::FromText("form.ucp", form));
  DiagnosticSink sink;
  auto again = ParseSpec(formatted, sink);
  ASSERT_TRUE(again) << RenderText(formatted, sink) << source.text();
  ASSERT_EQ(ast::Print(*again), ast::Print(file)) << source.text();
  ASSERT_EQ(Pretty(formatted, *again), form) << source.text();
}

// Returns whether the parser accepted it.
bool RunFrontEnd(const std::string& text) {
  auto source = Source::FromText("fuzz.ucp", text);
  if (!source) {  // A mutation can cut a character in two.
    llvm::consumeError(source.takeError());
    return false;
  }
  DiagnosticSink sink;
  auto file = ParseSpec(*source, sink);
  EXPECT_EQ(file.has_value(), !sink.has_errors()) << text;
  if (!file) return false;
  ExpectAForm(*source, *file);
  auto spec = CheckSpec(*file, *source, sink);
  EXPECT_EQ(spec.has_value(), !sink.has_errors()) << text;
  EXPECT_FALSE(RenderText(*source, sink).empty() && sink.has_errors()) << text;
  return true;
}

TEST(FrontEndFuzz, EndsSaysWhyAndKeepsTheMeaning) {
  std::vector<std::string> seeds = Seeds();
  ASSERT_GT(seeds.size(), 100U);
  const char* seconds = std::getenv("UCP_TEST_SECONDS");
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds == nullptr ? 0 : std::atoi(seconds));
  int accepted = 0;
  for (unsigned seed = 0; seed < 2000 || std::chrono::steady_clock::now() < end; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    accepted += RunFrontEnd(Mutator(seed, seeds).Make()) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 500);  // Else the formatter has seen little.
}

// Two mutated files, of which the first may include the second, itself, or what is not there.
class TwoFiles {
 public:
  TwoFiles() : folder_(testing::TempDir() + "ucp_front_end_fuzz_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~TwoFiles() { std::filesystem::remove_all(folder_); }
  TwoFiles(const TwoFiles&) = delete;
  TwoFiles& operator=(const TwoFiles&) = delete;

  std::string Write(const std::string& main, const std::string& part) const {
    std::ofstream(folder_ / "part.ucp", std::ios::binary) << part;
    std::ofstream(folder_ / "main.ucp", std::ios::binary) << main;
    return (folder_ / "main.ucp").string();
  }

 private:
  std::filesystem::path folder_;
};

// A whole spec becomes a part by leaving out its layout, or everything else.
std::string PartOf(const std::string& spec, unsigned seed) {
  std::size_t layout = spec.find("\nlayout ");
  if (layout == std::string::npos || seed % 3 == 0) return spec;
  return seed % 3 == 1 ? spec.substr(0, layout + 1) : "ucp 1" + spec.substr(layout);
}

TEST(FrontEndFuzz, IncludesEndAndSayWhy) {
  std::vector<std::string> seeds = Seeds();
  TwoFiles files;
  int accepted = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Mutator mutator(seed, seeds);
    std::string main = mutator.Make();
    const char* place = seed % 2 == 0 ? "\nlayout " : "{";
    std::size_t at = main.find(place);
    const char* include = seed % 8 == 7 ? "\ninclude \"main.ucp\" " : "\ninclude \"part.ucp\" ";
    if (at != std::string::npos) main.insert(at + (seed % 2), include);
    auto source = Source::FromFile(files.Write(main, PartOf(mutator.Make(), seed)));
    if (!source) {
      llvm::consumeError(source.takeError());
      continue;
    }
    DiagnosticSink sink;
    auto file = ParseWithIncludes(*source, sink);
    ASSERT_TRUE(file.has_value() || sink.has_errors()) << main;
    if (!file) continue;
    if (!sink.has_errors()) ++accepted;
    auto spec = CheckSpec(*file, *source, sink);
    ASSERT_EQ(spec.has_value(), !sink.has_errors()) << main;
    ASSERT_FALSE(RenderText(*source, sink).empty() && sink.has_errors()) << main;
  }
  EXPECT_GT(accepted, 50);
}

double SecondsOf(const std::string& text) {
  std::clock_t begin = std::clock();
  RunFrontEnd(text);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

std::string Repeat(std::string_view piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

// Four times the text may take four times as long; ten leaves room for noise, and none for squares. Processor time, not
// a clock on the wall.
TEST(FrontEndFuzz, TimeIsLinearInTheText) {
  constexpr int kCount = 6000;
  struct Shape {
    std::string_view before, piece, after;
  };
  for (const Shape& shape :
       {Shape{"ucp 1\nlayout l { \"a\" [", "1 + ", "1] }\n"}, Shape{"ucp 1\nlayout l { \"a\" [", "2 * ", "1] }\n"},
        Shape{"ucp 1\ndim d from ", "args.a_rather_long_path, ", "a.b\nlayout l { \"a\" [d] }\n"},
        Shape{"ucp 1\nlayout l {", " drop \"{a|b}\" // c\n", "}\n"},
        Shape{"ucp 1\nlayout l { when has \"x\" {}", " else when has \"x\" { }", "}\n"},
        Shape{"ucp 1\nlayout l { \"", "{a|b}", "\" [1] }\n"}, Shape{"", "// a comment\n", "ucp 1\n"},
        Shape{"ucp 1\nlayout l { \"a\" [1, ", "// c\n", "2] }\n"}, Shape{"ucp 1\nmesh tp", ", tp", "\n"},
        Shape{"ucp 1\n", "] ", "\n"}}) {
    SCOPED_TRACE(shape.piece);
    auto text = [&](int count) {
      return std::string(shape.before) + Repeat(shape.piece, count) + std::string(shape.after);
    };
    double once = SecondsOf(text(kCount));
    double four_times = SecondsOf(text(4 * kCount));
    EXPECT_LT(four_times, 10 * once + 0.05);
  }
}

}  // namespace
}  // namespace ucp
