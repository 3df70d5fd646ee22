#include "compiler/layout/layout.h"

#include <gmock/gmock.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using testing::ElementsAre;

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Tp(ShapeExpr inner) { return ShapeExpr::Cut(std::move(inner), {"tp"}); }

TensorLayout Tensor(std::string name, std::vector<ShapeExpr> dims) {
  TensorLayout tensor;
  tensor.name = std::move(name);
  tensor.dims = std::move(dims);
  return tensor;
}

Shard ShardOf(std::string name, std::int64_t tp, std::vector<std::int64_t> shape) {
  Shard shard;
  shard.tensor = std::move(name);
  shard.coordinate.at["tp"] = tp;
  shard.shape = std::move(shape);
  return shard;
}

std::string Verdict(llvm::Error error) { return error ? Describe(std::move(error)).message : "sound"; }

TEST(MeshTest, AxesThatAreNotListedHaveSizeOne) {
  Mesh mesh{{{"pp", 2}, {"tp", 3}}};
  EXPECT_EQ(mesh.Size("tp"), 3);
  EXPECT_EQ(mesh.Size("dp"), 1);
  EXPECT_EQ(ToString(mesh), "pp=2 tp=3");
  EXPECT_EQ(Coordinate{}.At("tp"), 0);
  EXPECT_TRUE(IsKnownAxis("etp"));
  EXPECT_FALSE(IsKnownAxis("xp"));
}

TEST(LayoutTest, FindsByNameAndByAlias) {
  Layout layout;
  layout.tensors = {Tensor("a", {}), Tensor("b", {})};
  layout.tensors[1].aliases = {"z"};
  EXPECT_EQ(layout.Find("b"), &layout.tensors[1]);
  EXPECT_EQ(layout.Find("z"), &layout.tensors[1]);
  EXPECT_EQ(layout.Find("c"), nullptr);
}

TEST(LayoutTest, CoordinatesAreThoseOfTheAxesThatCut) {
  Mesh mesh{{{"pp", 2}, {"tp", 2}, {"ep", 3}}};
  EXPECT_EQ(CoordinatesOf(Tensor("a", {Tp(N(4))}), mesh).size(), 2u);
  EXPECT_EQ(CoordinatesOf(Tensor("a", {N(4)}), mesh).size(), 1u);
  EXPECT_EQ(CoordinatesOf(Tensor("a", {Tp(N(4)), ShapeExpr::Cut(N(3), {"ep"})}), mesh).size(), 6u);
}

TEST(LayoutTest, VerifyNamesWhatNoRankHolds) {
  Layout layout;
  layout.mesh = {{{"tp", 2}}};
  layout.tensors = {Tensor("good", {Tp(N(4)), N(2)})};
  EXPECT_EQ(Verdict(VerifyLayout(layout)), "sound");
  layout.tensors = {Tensor("diagonal", {ShapeExpr::Product({Tp(N(4)), Tp(N(2))})})};
  EXPECT_EQ(Verdict(VerifyLayout(layout)), "tensor `diagonal`: no rank holds position 1 of the 8 of dimension 0");
  layout.tensors = {Tensor("odd", {Tp(N(3))})};
  EXPECT_EQ(Verdict(VerifyLayout(layout)), "tensor `odd`: `3@tp` cuts 3 places over 2 ranks, and 2 does not divide 3");
}

TEST(LayoutTest, WholeTensorsNeedNoSpec) {
  Inventory inventory;
  inventory.aliases["head"] = "embed";
  inventory.storage.shards = {ShardOf("embed", 0, {4, 2}), ShardOf("embed", 1, {4, 2}), ShardOf("head", 1, {4, 2})};
  Layout layout = llvm::cantFail(WholeLayout(inventory));
  ASSERT_EQ(layout.tensors.size(), 1u);
  EXPECT_EQ(ToString(layout.tensors[0]), "embed [4, 2] tie head");

  inventory.storage.shards[1].shape = {3, 2};
  auto refused = WholeLayout(inventory);
  ASSERT_FALSE(static_cast<bool>(refused));
  EXPECT_EQ(
      Describe(refused.takeError()).message,
      "tensor `embed` has shape [4, 2] at tp=0 and [3, 2] at tp=1; write a spec that says how it is cut, and name "
      "it with --spec");
}

TEST(LayoutTest, TheAtomicLayoutIsWholeAndWithoutPadding) {
  Layout layout;
  layout.mesh = {{{"tp", 2}}};
  layout.tensors = {Tensor("a", {Tp(ShapeExpr::Pad(N(5), 8)), N(2)})};
  layout.tensors[0].stages = {{0}};
  Layout atomic = llvm::cantFail(AtomicLayout(layout));
  EXPECT_EQ(ToString(atomic.tensors[0]), "a [5, 2]");
  EXPECT_THAT(llvm::cantFail(LogicalShape(layout.tensors[0])), ElementsAre(5, 2));
  EXPECT_EQ(ToString(layout.tensors[0]), "a [pad(5, 8)@tp, 2] at pp=0");
}

}  // namespace
}  // namespace ucp
