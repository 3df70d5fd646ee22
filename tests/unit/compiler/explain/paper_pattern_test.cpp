#include "compiler/explain/paper_pattern.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Over(ShapeExpr inner, std::string axis) { return ShapeExpr::Cut(std::move(inner), {std::move(axis)}); }
ShapeExpr Tp(ShapeExpr inner) { return Over(std::move(inner), "tp"); }
ShapeExpr Times(ShapeExpr a, ShapeExpr b) { return ShapeExpr::Product({std::move(a), std::move(b)}); }

TensorLayout Tensor(std::vector<ShapeExpr> dims) {
  TensorLayout tensor;
  tensor.name = "t";
  tensor.dims = std::move(dims);
  return tensor;
}

const Mesh kMesh{{{"pp", 3}, {"dp", 2}, {"tp", 2}}};

// "Shard-V: cut along …"
std::string Derived(const TensorLayout& tensor, const Mesh& mesh = kMesh) {
  auto holders = HoldersOf(tensor, mesh);
  if (!holders) return TakeFailure(holders.takeError()).message;
  auto derived = DerivePattern(tensor, mesh, *holders);
  if (!derived) return TakeFailure(derived.takeError()).message;
  return std::string(ToString(derived->pattern)) + ": " + derived->why;
}

// The examples that the paper itself gives, in its words for them.

TEST(PaperPatternTest, AColumnParallelMatrixIsShardV) {
  EXPECT_EQ(Derived(Tensor({Tp(N(64)), N(16)})), "Shard-V: cut along dimension 0 over tp, in one piece");
  EXPECT_EQ(Derived(Tensor({Tp(N(64))})), "Shard-V: cut along dimension 0 over tp, in one piece");
}

TEST(PaperPatternTest, ARowParallelMatrixIsShardH) {
  EXPECT_EQ(Derived(Tensor({N(16), Tp(N(64))})), "Shard-H: cut along dimension 1 over tp, in one piece");
}

TEST(PaperPatternTest, TwoDimensionsAreShardHy) {
  EXPECT_EQ(Derived(Tensor({Tp(N(64)), Over(N(16), "dp")})), "Shard-Hy: cut along dimensions 0 and 1 over dp and tp");
}

TEST(PaperPatternTest, FusedExpertsAreShardNC) {
  EXPECT_EQ(Derived(Tensor({Times(N(4), Tp(N(8))), N(16)})),
            "Shard-NC: cut along dimension 0 over tp, in 4 pieces on a rank");
}

TEST(PaperPatternTest, FusedQueryKeyValueOfDifferentSizesAreShardNC) {
  ShapeExpr fused = ShapeExpr::Sum({Times(Tp(N(8)), N(4)), Times(Tp(N(2)), N(4)), Times(Tp(N(2)), N(4))});
  EXPECT_EQ(Derived(Tensor({fused, N(16)})), "Shard-NC: cut along dimension 0 over tp, in 3 pieces on a rank");
}

TEST(PaperPatternTest, ALayerNormIsReplicateUnderTensorParallelismAndUniqueWithout) {
  TensorLayout norm = Tensor({N(16)});
  EXPECT_EQ(Derived(norm), "Replicate: whole on 2 ranks of tp");
  EXPECT_EQ(Derived(norm, {{{"pp", 2}, {"dp", 4}}}), "Unique: whole on the stage that has it");
  EXPECT_EQ(Derived(norm, {}), "Unique: whole on one rank");
}

TEST(PaperPatternTest, ATiedEmbeddingIsReplicateOverStages) {
  TensorLayout tied = Tensor({N(16)});
  tied.stages = {0, 2};
  EXPECT_EQ(Derived(tied, {{{"pp", 3}}}), "Replicate: whole on stages 0, 2");
  EXPECT_EQ(Derived(tied), "Replicate: whole on 2 ranks of tp and stages 0, 2");
  tied.stages = {2};
  EXPECT_EQ(Derived(tied, {{{"pp", 3}}}), "Unique: whole on stage 2 alone");
}

TEST(PaperPatternTest, WhatIsAveragedIsPartial) {
  TensorLayout drifting = Tensor({N(16)});
  drifting.mean_axes = {"tp"};
  EXPECT_EQ(Derived(drifting), "Partial: the mean of the copies over tp");
  EXPECT_EQ(Derived(drifting, {{{"tp", 1}}}), "Unique: whole on one rank");
}

// Cases that the paper does not mention, and that its definitions decide.

TEST(PaperPatternTest, UnevenPartsInOnePieceStayShardV) {
  ShapeExpr padded = Tp(ShapeExpr::Pad(N(101), 128));
  EXPECT_EQ(Derived(Tensor({padded, N(16)})), "Shard-V: cut along dimension 0 over tp, in one piece of 37 to 64");
}

TEST(PaperPatternTest, ADimensionInTheMiddleIsShardNC) {
  EXPECT_EQ(Derived(Tensor({N(4), Tp(N(8)), N(16)})),
            "Shard-NC: cut along dimension 1 over tp, in one piece; it is neither the first nor the last of 3");
}

TEST(PaperPatternTest, AnOuterFactorOfOneChangesNothing) {
  EXPECT_EQ(Derived(Tensor({Times(N(1), Tp(N(8)))})), "Shard-V: cut along dimension 0 over tp, in one piece");
}

TEST(PaperPatternTest, AnExpertOnOnePlaceIsUnique) {
  TensorLayout expert = Tensor({N(8), N(16)});
  expert.only_at["ep"] = {3};
  EXPECT_EQ(Derived(expert, {{{"ep", 4}}}), "Unique: whole on one rank");
  expert.only_at["ep"] = {1, 3};
  EXPECT_EQ(Derived(expert, {{{"ep", 4}}}), "Replicate: whole on 2 ranks of ep");
}

TEST(PaperPatternTest, AbsurdDegreesAreRefused) {
  EXPECT_EQ(Derived(Tensor({Tp(N(1'000'000)), Over(N(1'000'000), "dp")}), {{{"dp", 1000}, {"tp", 1000}}}),
            "tensor `t` would be cut into more than 65536 parts on dp=1000 tp=1000");
}

}  // namespace
}  // namespace ucp
