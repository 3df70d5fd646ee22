// Whatever the spec says, the checker ends, does not crash, and has said why if it gave nothing. The seeds are the
// golden files and the shipped specs, with bytes changed, removed and doubled.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/check/bind.h"
#include "compiler/parse/parse.h"

namespace ucp {
namespace {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const char* folder : {"/specs", "/tests/golden"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(UCP_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".ucp") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      std::stringstream text;
      text << file.rdbuf();
      seeds.push_back(text.str());
    }
  }
  return seeds;
}

void Mutate(std::string& text, std::mt19937& random) {
  static const std::string kBytes = "{}[]()@*+-/%:|.,\"=0129 \nnij";
  for (unsigned edits = random() % 4; edits > 0 && !text.empty(); --edits) {
    std::size_t at = random() % text.size();
    switch (random() % 3) {
      case 0:
        text[at] = kBytes[random() % kBytes.size()];
        break;
      case 1:
        text.erase(at, random() % 8);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 16));
    }
  }
}

void CompileAndBind(const std::string& text, std::mt19937& random) {
  auto source = Source::FromText("fuzz.ucp", text);
  if (!source) {
    llvm::consumeError(source.takeError());
    return;
  }
  DiagnosticSink sink;
  auto file = ParseSpec(*source, sink);
  auto spec = file ? CheckSpec(*file, *source, sink) : std::nullopt;
  if (!spec) {
    ASSERT_TRUE(sink.has_errors()) << text;
    return;
  }
  Settings set;
  for (const DimDeclaration& dim : spec->dims) {
    if (!dim.definition && random() % 8 != 0) set[dim.name] = {static_cast<std::int64_t>(random() % 5)};
  }
  Inventory nothing;
  auto degree = [&] { return static_cast<std::int64_t>(1 + random() % 3); };
  nothing.mesh.axes = {{"pp", degree()}, {"tp", degree()}};
  auto bound = BindSpec(*spec, nothing, set, sink);
  auto layout = bound ? LowerToMesh(*bound, {.mesh = nothing.mesh, .stage_layers = {}}, sink) : std::nullopt;
  ASSERT_TRUE(layout || sink.has_errors()) << text;
}

TEST(CheckFuzz, EndsAndSaysWhy) {
  std::mt19937 random(7);
  std::vector<std::string> seeds = Seeds();
  ASSERT_GT(seeds.size(), 20u);
  for (int round = 0; round < 1500; ++round) {
    std::string text = seeds[random() % seeds.size()];
    Mutate(text, random);
    CompileAndBind(text, random);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ucp
