// The checker's length of each shard, against the positions that the layout selects there: two ways to the same
// number, which share no arithmetic. A layout is lowered without a checkpoint, shards are cut from it, and the spec
// must find nothing to say about them; and must say something about each shard that is one too long.
#include <gtest/gtest.h>

#include "compiler/bind/bind.h"
#include "compiler/check/check_spec.h"
#include "compiler/diagnostics/render.h"
#include "compiler/parse/parse.h"

namespace ucp {
namespace {

struct Case {
  std::string shape;
  Mesh mesh;
};

std::optional<CheckedSpec> Check(const Source& source, DiagnosticSink& sink) {
  auto file = ParseSpec(source, sink);
  return file ? CheckSpec(*file, source, sink) : std::nullopt;
}

// One shard of "t" at every coordinate of the mesh that the layout knows of.
Inventory ShardsOf(const Layout& layout) {
  Inventory inventory;
  inventory.mesh = layout.mesh;
  for (const Coordinate& coordinate : CoordinatesOf(layout.tensors.front(), layout.mesh)) {
    auto held = HeldAt(layout.tensors.front(), layout.mesh, coordinate);
    EXPECT_TRUE(static_cast<bool>(held)) << ToString(layout.tensors.front());
    Shard shard;
    shard.tensor = "t";
    shard.coordinate = coordinate;
    shard.shape = held->LocalShape();
    inventory.storage.shards.push_back(shard);
  }
  return inventory;
}

class LocalLengths : public testing::TestWithParam<Case> {};

TEST_P(LocalLengths, AreThoseOfTheSelections) {
  auto source =
      Source::FromText("spec.ucp", "ucp 1 dim n = 24 mesh dp, tp layout l { \"t\" " + GetParam().shape + " }");
  ASSERT_TRUE(static_cast<bool>(source));
  DiagnosticSink sink;
  auto spec = Check(*source, sink);
  ASSERT_TRUE(spec) << RenderText(*source, sink);
  Inventory nothing;
  nothing.mesh = GetParam().mesh;
  auto target = BindSpec(*spec, nothing, {}, sink);
  ASSERT_TRUE(target) << RenderText(*source, sink);
  auto layout = LowerToMesh(*target, {.mesh = GetParam().mesh}, sink);
  ASSERT_TRUE(layout) << RenderText(*source, sink);
  Inventory inventory = ShardsOf(*layout);
  EXPECT_TRUE(BindSpec(*spec, inventory, {}, sink)) << RenderText(*source, sink);
  for (Shard& shard : inventory.storage.shards) {
    ++shard.shape.front();
    DiagnosticSink wrong;
    EXPECT_FALSE(BindSpec(*spec, inventory, {}, wrong)) << ToString(shard.coordinate);
    --shard.shape.front();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LocalLengths,
    testing::Values(Case{"[n@tp(chunk), 2]", {{{"tp", 5}}}}, Case{"[n@tp(chunk), 2]", {{{"tp", 30}}}},
                    Case{"[n@tp(spread 5), 2]", {{{"tp", 3}}}},
                    Case{"[(2 * (n@tp(spread)))@dp(chunk), 2]", {{{"dp", 3}, {"tp", 7}}}},
                    Case{"[n@tp(spread) * 2 + 5 + n@tp(chunk), 2]", {{{"tp", 9}}}},
                    Case{"[n@(dp, tp)(spread) * 3, 2]", {{{"dp", 3}, {"tp", 3}}}},
                    Case{"[n@dp(chunk) * n@tp(spread), 2]", {{{"dp", 5}, {"tp", 7}}}},
                    Case{"[pad(n, 7)@tp(chunk), 2]", {{{"tp", 3}}}}, Case{"[n@tp(replicate) * 2, 2]", {{{"tp", 48}}}},
                    Case{"[n@tp(widths [20, 0, 4]), 2]", {{{"tp", 3}}}},
                    Case{"[3@tp(list [[2, 0], [1, 2], []]) * n@dp, 2]", {{{"dp", 2}, {"tp", 3}}}}));

}  // namespace
}  // namespace ucp
