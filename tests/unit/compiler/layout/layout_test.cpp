#include "compiler/layout/layout.h"

#include <gmock/gmock.h>

#include "compiler/layout/layout_index.h"
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

std::string Verdict(llvm::Error error) { return error ? TakeFailure(std::move(error)).message : "sound"; }

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

TEST(LayoutTest, AnIndexFindsTheSame) {
  Layout layout;
  layout.tensors = {Tensor("a", {}), Tensor("b", {}), Tensor("c", {})};
  layout.tensors[0].aliases = {"c", "z"};  // A name counts before an alias, and the first of two equal ones.
  layout.tensors[1].aliases = {"y", "z"};
  const LayoutIndex index(layout);
  for (const char* name : {"a", "b", "c", "y", "z", "", "aa"}) EXPECT_EQ(index.Find(name), layout.Find(name)) << name;
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
  EXPECT_EQ(Verdict(VerifyLayout(layout)),
            "tensor `diagonal`: no rank holds position 1 of the 8 of dimension 0, which is `4@tp * 2@tp`");
  layout.tensors = {Tensor("odd", {Tp(N(3))})};
  EXPECT_EQ(Verdict(VerifyLayout(layout)), "tensor `odd`: `3@tp` cuts 3 places over 2 ranks, and 2 does not divide 3");
}

// An expert over ep, cut over etp in its own view of the ranks.
TensorLayout Expert() {
  TensorLayout tensor = Tensor("experts.2.up", {ShapeExpr::Cut(N(6), {"etp"}), N(2)});
  tensor.axes = {"pp", "edp", "ep", "etp"};
  tensor.only_at["ep"] = {1, 3};
  return tensor;
}
const Mesh kTwoViews{{{"pp", 2}, {"dp", 4}, {"tp", 2}, {"edp", 1}, {"ep", 4}, {"etp", 2}}};

TEST(LayoutTest, APartOfANameIsHeldWhereItsAxisSays) {
  TensorLayout expert = Expert();
  EXPECT_EQ(ToString(expert), "experts.2.up [6@etp, 2] of pp, edp, ep, etp at ep=1,3");
  std::string coordinates;
  for (const Coordinate& coordinate : CoordinatesOf(expert, kTwoViews)) coordinates += ToString(coordinate) + "; ";
  EXPECT_EQ(coordinates, "ep=1 etp=0; ep=1 etp=1; ep=3 etp=0; ep=3 etp=1; ");
  EXPECT_TRUE(IsHeldAt(expert, {{{"ep", 3}, {"pp", 1}}}));
  EXPECT_FALSE(IsHeldAt(expert, {{{"ep", 2}}}));
  EXPECT_FALSE(IsHeldAt(expert, {}));
  expert.stages = {{0}};
  expert.unused_stages = {2};
  EXPECT_TRUE(IsHeldAt(expert, {{{"ep", 3}}}));
  EXPECT_TRUE(IsHeldAt(expert, {{{"ep", 3}, {"pp", 2}}}));
  EXPECT_FALSE(IsHeldAt(expert, {{{"ep", 3}, {"pp", 1}}}));
}

TEST(LayoutTest, VerifyKnowsWhatAnAxisMayDo) {
  auto verdict = [](const TensorLayout& tensor) {
    Layout layout;
    layout.mesh = kTwoViews;
    layout.tensors = {tensor};
    return Verdict(VerifyLayout(layout));
  };
  EXPECT_EQ(verdict(Expert()), "sound");
  TensorLayout tensor = Expert();
  tensor.only_at["ep"] = {1, 4};
  EXPECT_EQ(verdict(tensor), "tensor `experts.2.up`: it is at ep=4, and there are 4 places on ep");
  tensor.only_at["ep"] = {};
  EXPECT_EQ(verdict(tensor), "tensor `experts.2.up`: no place on ep holds it");
  tensor = Expert();
  tensor.dims[1] = ShapeExpr::Cut(N(2), {"tp"});
  EXPECT_EQ(verdict(tensor), "tensor `experts.2.up`: the axis tp cuts dimension 1, and its mesh is pp, edp, ep, etp");
  tensor.dims[1] = ShapeExpr::Cut(N(2), {"etp"});
  EXPECT_EQ(verdict(tensor),
            "tensor `experts.2.up`: the axis etp cuts dimension 0, and cuts dimension 1 too; an axis has one use in a "
            "tensor");
  tensor = Expert();
  tensor.mean_axes = {"ep"};
  EXPECT_EQ(verdict(tensor),
            "tensor `experts.2.up`: the axis ep cuts its name, and is averaged over too; an axis has one use in a "
            "tensor");
  tensor = Expert();
  tensor.scale = {1, 0};
  EXPECT_EQ(verdict(tensor), "tensor `experts.2.up`: scale(1 / 0) leaves nothing to be read");
}

TEST(LayoutTest, ListsMayFallAndMayNotLeaveOut) {
  Layout layout;
  layout.mesh = {{{"ep", 2}}};
  ShapeExpr list = ShapeExpr::Cut(N(4), {"ep"});
  list.rule = CutRule::kList;
  list.lists = {{3, 0, 1}, {2, 1}};
  layout.tensors = {Tensor("experts", {list})};
  EXPECT_EQ(Verdict(VerifyLayout(layout)), "sound");
  layout.tensors[0].dims[0].lists[1] = {1};
  EXPECT_EQ(Verdict(VerifyLayout(layout)),
            "tensor `experts`: no rank holds position 2 of the 4 of dimension 0, which is `4@ep(list [[3, 0, 1], "
            "[1]])`");
  std::vector<std::int64_t> falling(kMaxIncreasingPieces + 1);
  for (std::size_t i = 0; i < falling.size(); ++i) falling[i] = static_cast<std::int64_t>(falling.size() - 1 - i);
  list.operands[0] = N(std::ssize(falling));
  list.lists = {falling, falling};
  layout.tensors[0].dims = {list};
  EXPECT_THAT(Verdict(VerifyLayout(layout)), testing::HasSubstr("4097 increasing pieces"));
}

TEST(LayoutTest, ManyCoordinatesCostNothing) {
  Layout layout;
  layout.mesh = {{{"tp", 64}, {"ep", 256}, {"dp", 1024}}};
  layout.tensors = {Tensor("experts", {ShapeExpr::Cut(N(256), {"ep"}), Tp(N(64)), N(2)})};
  for (int i = 0; i < 2000; ++i) layout.tensors.push_back(layout.tensors[0]);
  EXPECT_EQ(Verdict(VerifyLayout(layout)), "sound");
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
      TakeFailure(refused.takeError()).message,
      "tensor `embed` has shape [4, 2] at tp=0 and [3, 2] at tp=1; write a spec that says how it is cut, and name "
      "it with spec");
}

TEST(LayoutTest, TheAtomicLayoutIsWholeAndWithoutPadding) {
  Layout layout;
  layout.mesh = {{{"tp", 2}}};
  layout.tensors = {Tensor("a", {Tp(ShapeExpr::Pad(N(5), 8)), N(2)})};
  layout.tensors[0].stages = {{0}};
  layout.tensors[0].mean_axes = {"dp", "cp"};
  layout.tensors[0].scale = {1, 2};
  Layout atomic = llvm::cantFail(AtomicLayout(layout));
  EXPECT_EQ(ToString(atomic.tensors[0]), "a [5, 2]");
  EXPECT_THAT(llvm::cantFail(LogicalShape(layout.tensors[0])), ElementsAre(5, 2));
  EXPECT_EQ(ToString(layout.tensors[0]), "a [pad(5, 8)@tp, 2] at pp=0 mean@(dp, cp) scale(1 / 2)");
}

}  // namespace
}  // namespace ucp
