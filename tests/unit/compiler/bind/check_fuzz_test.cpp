// Whatever the spec says, whatever dims, facts and headers it meets, the checker ends, does not crash, and has said why
// if it gave nothing. The seeds are the golden files with the checkpoints written in them, and the shipped specs; bytes
// of the spec are changed, removed and doubled, and values are drawn anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/bind/ambiguous_branches.h"
#include "compiler/bind/bind.h"
#include "compiler/bind/unmatched_patterns.h"
#include "compiler/check/check_spec.h"
#include "compiler/parse/parse.h"
#include "tests/golden/written_inventory.h"

namespace ucp {
namespace {

struct Seed {
  std::string spec;
  golden::WrittenInventory written;  // Empty where none is written.
};

std::vector<Seed> Seeds() {
  std::vector<Seed> seeds;
  for (const char* folder : {"/specs", "/tests/golden"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(UCP_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".ucp") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      std::stringstream text;
      text << file.rdbuf();
      seeds.push_back({text.str(), llvm::cantFail(golden::ReadWrittenInventory(text.str()))});
    }
  }
  std::sort(seeds.begin(), seeds.end(), [](const Seed& a, const Seed& b) { return a.spec < b.spec; });
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

std::int64_t Below(std::int64_t end, std::mt19937& random) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
}

// A boolean, a number, a text, or a list of one kind or of all, or of lists.
FactValue AnyValue(std::mt19937& random, int depth = 0) {
  static constexpr const char* kTexts[] = {"moe", "dense", "mamba", "silu", ""};
  switch (Below(depth < 2 ? 6 : 3, random)) {
    case 0:
      return {Below(2, random) == 0};
    case 1:
      return {Below(7, random) - 1};
    case 2:
      return {kTexts[Below(std::ssize(kTexts), random)]};
    default: {
      std::vector<FactValue> list;
      bool alike = Below(4, random) != 0;
      FactValue first = AnyValue(random, depth + 1);
      for (std::int64_t i = Below(6, random); i > 0; --i) {
        FactValue next = AnyValue(random, depth + 1);
        bool keep = !alike || next.value.index() == first.value.index();
        list.push_back(keep ? std::move(next) : first);
      }
      return {std::move(list)};
    }
  }
}

// The names after `has` anywhere in the spec, as `--set` names them.
std::vector<std::string> HasSettings(const CheckedSpec& spec) {
  References references;
  for (const TensorDeclaration& tensor : spec.tensors) {
    for (const Guard& guard : tensor.guards) references.Add(*guard.condition);
  }
  for (const FactDeclaration& fact : spec.facts) {
    if (fact.condition) references.Add(*fact.condition);
  }
  std::vector<std::string> names;
  for (const Condition* has : references.names) names.push_back(fmt::format("has {}", spec.TextOf(has->name[0].range)));
  return names;
}

// Those of the seed, and others.
Settings AnySettings(const CheckedSpec& spec, const Settings& given, bool header, std::mt19937& random) {
  Settings set;
  for (const auto& [name, value] : given) {
    if (Below(8, random) != 0) set[name] = value;
  }
  auto draws = [&](const auto& declaration) { return !declaration.definition && Below(8, random) != 0; };
  for (const DimDeclaration& dim : spec.dims) {
    if (!set.contains(dim.name) && draws(dim)) set[dim.name] = {Below(5, random)};
  }
  for (const FactDeclaration& fact : spec.facts) {
    if (!set.contains(fact.name) && draws(fact)) set[fact.name] = AnyValue(random);
  }
  for (const std::string& has : HasSettings(spec)) {
    if (!header || Below(16, random) == 0) set[has] = {Below(2, random) == 0};
  }
  return set;
}

// Counts how far specs come, so that the test can say that it has seen something.
struct Reached {
  int checked = 0;
  int bound = 0;
  int bound_to_header = 0;
};

void CompileAndBind(const Seed& seed, const std::string& text, std::mt19937& random, Reached& reached) {
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
  ++reached.checked;
  bool header = !seed.written.inventory.storage.shards.empty() && Below(4, random) != 0;
  Inventory inventory = header ? seed.written.inventory : Inventory{};
  auto degree = [&] { return 1 + Below(3, random); };
  Mesh mesh{{{"pp", degree()}, {"tp", degree()}}};
  if (!header) inventory.mesh = mesh;
  Settings set = AnySettings(*spec, seed.written.set, header, random);
  auto bound = BindSpec(*spec, inventory, set, sink);
  if (bound && header) {
    WarnOfUnmatchedPatterns(*bound, inventory, set, sink);
    WarnOfAmbiguousBranches(*bound, inventory, set, sink);
    ++reached.bound_to_header;
  }
  if (bound) ++reached.bound;
  auto layout = bound ? LowerToMesh(*bound, {.mesh = mesh, .stage_layers = {}}, sink) : std::nullopt;
  ASSERT_TRUE(layout || sink.has_errors()) << text;
}

TEST(CheckFuzz, EndsAndSaysWhy) {
  std::mt19937 random(7);
  std::vector<Seed> seeds = Seeds();
  ASSERT_GT(seeds.size(), 20u);
  Reached reached;
  for (int round = 0; round < 4000; ++round) {
    const Seed& seed = seeds[static_cast<std::size_t>(Below(std::ssize(seeds), random))];
    std::string text = seed.spec;
    Mutate(text, random);
    CompileAndBind(seed, text, random, reached);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(reached.checked, 600);
  EXPECT_GT(reached.bound, 100);
  EXPECT_GT(reached.bound_to_header, 50);
}

}  // namespace
}  // namespace ucp
