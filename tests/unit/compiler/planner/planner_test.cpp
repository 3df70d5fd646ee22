// The planner's decisions about replicas, weights and stages, and its refusals.
#include "compiler/planner/planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "compiler/plan/steps.h"
#include "compiler/planner/join.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::oracle {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Tp(ShapeExpr inner) { return ShapeExpr::Cut(std::move(inner), {"tp"}); }
Strategy Over(Mesh mesh) { return {std::move(mesh), Style::kFlat, 2}; }
Strategy OverTp(std::int64_t tp) { return Over({{{"tp", tp}}}); }

std::string RoleName(ReadRole role) {
  constexpr const char* kNames[] = {"copy", "compare", "check", "unused"};
  return kNames[static_cast<int>(role)];
}

// "copy tp=0 [0..4]", one for each read.
std::vector<std::string> Reads(const Plan& plan) {
  std::vector<std::string> lines;
  for (const PlanRead& read : plan.reads) {
    lines.push_back(fmt::format("{}{} {} {}", read.is_overruled ? "overruled " : "", RoleName(read.role),
                                ucp::ToString(read.coordinate), ucp::ToString(plan.set(read.set))));
  }
  return lines;
}

Compiled Compiles(const Conversion& conversion, ReplicaPolicy replicas = ReplicaPolicy::kCompare) {
  auto compiled = Compile(conversion, replicas);
  if (!compiled) {
    ADD_FAILURE() << TakeFailure(compiled.takeError()).message;
    std::abort();
  }
  EXPECT_EQ(Flaw(*compiled), "");
  return std::move(*compiled);
}

std::string Refusal(const Side& source, const Side& target) {
  auto plan = MakePlan(source, target);
  return plan ? "accepted" : TakeFailure(plan.takeError()).message;
}

TEST(PlannerTest, ReadsTheLowestRankAndComparesTheOthers) {
  Compiled compiled = Compiles({{{{N(4)}, {}}}, {{{N(4)}, {}}}, OverTp(3), OverTp(1)});
  EXPECT_THAT(Reads(compiled.plan), ElementsAre("copy tp=0 [0..4]", "compare tp=1 [0..4]", "compare tp=2 [0..4]"));
}

TEST(PlannerTest, ABelievedRankIsCopiedAndTheOthersAreOverruled) {
  Compiled compiled = Compiles({{{{N(4)}, {}}}, {{{N(4)}, {}}}, OverTp(3), OverTp(1), {{{{"tp", 1}}}}});
  EXPECT_THAT(Reads(compiled.plan),
              ElementsAre("copy tp=1 [0..4]", "overruled compare tp=0 [0..4]", "overruled compare tp=2 [0..4]"));
}

// Where several ranks are believed, or none of those that hold an element, replicas must be equal.
TEST(PlannerTest, AmongEqualsNobodyIsOverruled) {
  Strategy from = Over({{{"pp", 2}, {"tp", 2}}});
  Compiled believed = Compiles({{{{N(4)}, {}}}, {{{N(4)}, {}}}, from, OverTp(1), {{{{"tp", 1}}}}});
  EXPECT_THAT(Reads(believed.plan),
              ElementsAre("copy pp=0 tp=1 [0..4]", "compare pp=1 tp=1 [0..4]", "overruled compare pp=0 tp=0 [0..4]",
                          "overruled compare pp=1 tp=0 [0..4]"));
  Compiled other = Compiles({{{{N(4)}, {}}}, {{{N(4)}, {}}}, OverTp(2), OverTp(1), {{{{"dp", 1}}}}});
  EXPECT_THAT(Reads(other.plan), ElementsAre("copy tp=0 [0..4]", "compare tp=1 [0..4]"));
}

// Only what a believed rank holds too is overruled, of masters and of weights.
TEST(PlannerTest, PartOfAShardIsOverruled) {
  ShapeExpr shape = ShapeExpr::Sum({Tp(N(6)), ShapeExpr::Product({N(2), N(2)})});
  Strategy from = OverTp(2);
  from.weights = true;
  Compiled compiled = Compiles({{{{shape}, {}}}, {{{N(10)}, {}}}, from, OverTp(1), {{{{"tp", 1}}}}});
  EXPECT_THAT(Reads(compiled.plan),
              ElementsAre("copy tp=1 [3..10]", "copy tp=0 [0..3 pad 4]", "overruled compare tp=0 [pad 3 6..10]",
                          "check tp=1 [3..10]", "check tp=0 [0..3 pad 4]", "overruled check tp=0 [pad 3 6..10]"));
}

TEST(PlannerTest, TrustedReplicasAreNotRead) {
  Compiled compiled = Compiles({{{{N(4)}, {}}}, {{{N(4)}, {}}}, OverTp(2), OverTp(1)}, ReplicaPolicy::kTrust);
  EXPECT_THAT(Reads(compiled.plan), ElementsAre("copy tp=0 [0..4]", "unused tp=1 [0..4]"));
  EXPECT_EQ(compiled.plan.reads[1].reason, "a replica, and replicas are trusted");
}

// Multi-query attention: queries are cut, keys and values are on every rank.
TEST(PlannerTest, PartOfAShardIsCopiedAndPartIsCompared) {
  ShapeExpr shape = ShapeExpr::Sum({Tp(N(6)), ShapeExpr::Product({N(2), N(2)})});
  Compiled compiled = Compiles({{{{shape}, {}}}, {{{N(10)}, {}}}, OverTp(2), OverTp(1)});
  EXPECT_THAT(Reads(compiled.plan),
              ElementsAre("copy tp=0 [0..3 6..10]", "copy tp=1 [3..6 pad 4]", "compare tp=1 [pad 3 6..10]"));
  PlanTotals totals = Totals(compiled.plan);
  EXPECT_EQ(totals.bytes_to_copy, 10u * (4 + 2));
  EXPECT_EQ(totals.bytes_to_compare, 4u * (4 + 2));
}

TEST(PlannerTest, PartsOfAShardInASecondDimensionToo) {
  ShapeExpr shape = ShapeExpr::Sum({Tp(N(6)), N(2)});
  ShapeExpr columns = ShapeExpr::Cut(N(4), {"ep"});
  Compiles({{{{shape, columns}, {}}}, {{{N(8), N(4)}, {}}}, Over({{{"tp", 3}, {"ep", 2}}}), OverTp(1)});
}

TEST(PlannerTest, WeightsAreCheckedAgainstTheirMasters) {
  Strategy from = OverTp(2);
  from.weights = true;
  Compiled compiled = Compiles({{{{Tp(N(4))}, {}}}, {{{N(4)}, {}}}, from, OverTp(1)});
  EXPECT_THAT(Reads(compiled.plan),
              ElementsAre("copy tp=0 [0..2]", "copy tp=1 [2..4]", "check tp=0 [0..2]", "check tp=1 [2..4]"));
}

// A master of four elements, two for each rank: 16 bytes. Its weight is read from it, and the source's own weight (8
// bytes) is compared with the master where that is written too, and else with the weight.
TEST(PlannerTest, WeightsAreMadeFromMasters) {
  Strategy from{{{{"tp", 2}}}, Style::kSingle};
  from.weights = true;
  Strategy to{{{{"tp", 1}}}, Style::kSingle};
  to.rounded = DType::kBFloat16;
  for (bool trained : {true, false}) {
    to.trained = trained;
    Compiled compiled = Compiles({{{{Tp(N(4))}, {}}}, {{{N(4)}, {}}}, from, to});
    EXPECT_THAT(Reads(compiled.plan),
                ElementsAre("copy tp=0 [0..2]", "copy tp=1 [2..4]", "check tp=0 [0..2]", "check tp=1 [2..4]"));
    std::vector<std::string> steps;
    StepEnumerator enumerator(compiled.plan);
    ForEachTargetRange(compiled.plan, [&](const TargetRange& range) {
      enumerator.ForEachStep(range, [&](const Step& step) {
        steps.push_back(fmt::format("{} {} {} to {}", RoleName(step.role), range.state, Name(step.source_dtype),
                                    Name(step.target_dtype)));
      });
    });
    std::vector<std::string> expected = {"copy weight float32 to bfloat16", "copy weight float32 to bfloat16"};
    if (trained) {
      for (const char* step :
           {"copy exp_avg bfloat16 to bfloat16", "copy fp32 float32 to float32", "check fp32 bfloat16 to float32"}) {
        expected.insert(expected.end(), 2, step);
      }
    } else {
      expected.insert(expected.end(), 2, "check weight bfloat16 to bfloat16");
    }
    EXPECT_THAT(steps, testing::UnorderedElementsAreArray(expected));
    PlanTotals totals = Totals(compiled.plan);
    EXPECT_EQ(totals.bytes_to_copy, trained ? 4u * (4 + 2) : 4u * 4);
    EXPECT_EQ(totals.bytes_to_compare, 4u * 2);
  }
}

TEST(PlannerTest, AWeightIsMadeFromSomething) {
  Side source = Build({{{N(4)}, {}}}, OverTp(1));
  for (BufferSet& set : source.files.storage.buffer_sets) set.pop_back();  // The master.
  Strategy to = OverTp(1);
  to.rounded = DType::kBFloat16;
  to.trained = false;
  EXPECT_EQ(Refusal(source, Build({{{N(4)}, {}}}, to)),
            "the source has neither a weight nor a master of tensor `t0`, and the target wants its weight");
}

TEST(PlannerTest, AStageThatDoesNotTrainItsCopyIsUnused) {
  Side source = Build({{{N(4)}, {}}}, Over({{{"pp", 2}}}));
  source.layout.tensors[0].unused_stages = {1};
  Side target = Build({{{N(4)}, {}}}, OverTp(1));
  auto plan = MakePlan(source, target);
  ASSERT_TRUE(static_cast<bool>(plan)) << TakeFailure(plan.takeError()).message;
  EXPECT_THAT(Reads(*plan), ElementsAre("copy pp=0 [0..4]", "unused pp=1 [0..4]"));
  EXPECT_EQ(plan->reads[1].reason, "declared unused on stage 1 by oracle.ucp:1");
}

TEST(PlannerTest, WithoutASpecMetadataSaysWhichStageCounts) {
  Side source = Build({{{N(4)}, {}}}, Over({{{"pp", 2}}}));
  Side target = Build({{{N(4)}, {}}}, OverTp(1));
  Inventory inventory = AsInventory(source);
  inventory.first_stage_counts = {"t0"};
  auto tensors = JoinTensors(source.layout, inventory);
  ASSERT_TRUE(static_cast<bool>(tensors));
  auto plan = ucp::MakePlan({source.layout, inventory, target.layout, *tensors, ""}, target.files);
  ASSERT_TRUE(static_cast<bool>(plan)) << TakeFailure(plan.takeError()).message;
  EXPECT_THAT(Reads(*plan), ElementsAre("copy pp=0 [0..4]", "unused pp=1 [0..4]"));
}

TEST(PlannerTest, DroppedTensorsAreAccountedFor) {
  Side source = Build({{{N(4)}, {}}, {{Tp(N(6))}, {}}}, OverTp(2));
  Side target = Build({{{N(4)}, {}}}, OverTp(1));
  source.layout.tensors.pop_back();
  source.layout.dropped = {"t1"};
  auto plan = MakePlan(source, target);
  ASSERT_TRUE(static_cast<bool>(plan)) << TakeFailure(plan.takeError()).message;
  EXPECT_THAT(Reads(*plan),
              ElementsAre("copy tp=0 [0..4]", "compare tp=1 [0..4]", "unused tp=0 [0..3]", "unused tp=1 [0..3]"));
}

TEST(PlannerTest, SaysWhichElementsAreMissingWhenARankIsMissing) {
  Side source = Build({{{Tp(N(6)), N(2)}, {}}}, OverTp(3));
  std::erase_if(source.files.storage.shards, [](const Shard& shard) { return shard.coordinate.At("tp") == 1; });
  EXPECT_EQ(
      Refusal(source, Build({{{N(6), N(2)}, {}}}, OverTp(1))),
      "the shards of tensor `t0` hold 8 of its 12 elements; are files of some ranks missing, or does oracle.ucp:1 "
      "cut it by an axis that the checkpoint is not cut by?");
}

TEST(PlannerTest, SaysBothShapesWhenTheyDisagree) {
  Side source = Build({{{Tp(N(6)), N(2)}, {}}}, OverTp(3));
  source.layout.tensors[0].dims = {N(6), Tp(N(3))};
  EXPECT_EQ(Refusal(source, Build({{{N(6), N(3)}, {}}}, OverTp(1))),
            "tensor `t0` at tp=0 has the shape [2, 2] in the checkpoint, and oracle.ucp:1 makes it [6, 1]");
}

TEST(PlannerTest, ShardsThatOverlapInPartInTwoDimensions) {
  ShapeExpr rows = ShapeExpr::Sum({Tp(N(2)), N(1)});
  ShapeExpr columns = ShapeExpr::Sum({ShapeExpr::Cut(N(2), {"ep"}), N(1)});
  Compiled compiled = Compiles({{{{rows, columns}}}, {{{N(3), N(3)}}}, Over({{{"tp", 2}, {"ep", 2}}}), OverTp(1)});
  EXPECT_THAT(Reads(compiled.plan),
              IsSupersetOf({"copy ep=0 tp=0 [0..1 2..3, 0..1 2..3]", "copy ep=0 tp=1 [1..2 pad 1, 0..1 2..3]",
                            "copy ep=1 tp=0 [0..1 2..3, 1..2 pad 1]", "copy ep=1 tp=1 [1..2 pad 1, 1..2 pad 1]",
                            "compare ep=1 tp=1 [pad 1 2..3, pad 1 2..3]"}));
}

// Eight ranks for two key heads: four copies of each.
TEST(PlannerTest, FewerHeadsThanRanksOnBothSides) {
  ShapeExpr heads = Tp(N(2));
  heads.rule = CutRule::kReplicate;
  Compiled compiled = Compiles({{{{heads, N(3)}}}, {{{heads, N(3)}}}, OverTp(4), OverTp(8)});
  EXPECT_THAT(Reads(compiled.plan), ElementsAre("copy tp=0 [0..1, 0..3]", "copy tp=2 [1..2, 0..3]",
                                                "compare tp=1 [0..1, 0..3]", "compare tp=3 [1..2, 0..3]"));
  EXPECT_EQ(compiled.plan.writes.size(), 8u);
}

// Queries that are cut beside keys that every rank holds, as a target: its shards have a part in common.
TEST(PlannerTest, PartlyReplicatedTargets) {
  ShapeExpr shape = ShapeExpr::Sum({Tp(N(6)), ShapeExpr::Product({N(2), N(2)})});
  Compiles({{{{N(10)}}}, {{{shape}}}, OverTp(1), OverTp(3)});
  Compiles({{{{shape}}}, {{{shape}}}, OverTp(2), OverTp(3)});
}

TEST(PlannerTest, AListThatFallsIsReadAndWrittenInPieces) {
  ShapeExpr listed = Tp(N(6));
  listed.rule = CutRule::kList;
  listed.lists = {{4, 5, 2}, {3, 1, 0, 5}};
  Compiled read = Compiles({{{{listed}}}, {{{N(6)}}}, OverTp(2), OverTp(1)});
  EXPECT_THAT(Reads(read.plan),
              ElementsAre("copy tp=0 [4..6 pad 1]", "copy tp=0 [pad 2 2..3]", "copy tp=1 [3..4 pad 3]",
                          "copy tp=1 [pad 1 1..2 pad 2]", "copy tp=1 [pad 2 0..1 pad 1]", "compare tp=1 [pad 3 5..6]"));
  Compiled written = Compiles({{{{N(6)}}}, {{{listed}}}, OverTp(1), OverTp(2)});
  EXPECT_THAT(written.plan.writes[0].pieces.size(), 2u);
  EXPECT_THAT(written.plan.writes[1].pieces.size(), 3u);
  EXPECT_EQ(Flaw(written, 1), "");
}

TEST(PlannerTest, RanksThatHoldNothing) {
  ShapeExpr widths = Tp(N(5));
  widths.rule = CutRule::kWidths;
  widths.widths = {0, 5, 0};
  Compiled compiled = Compiles({{{{widths, N(2)}}}, {{{widths, N(2)}}}, OverTp(3), OverTp(3)});
  EXPECT_THAT(Reads(compiled.plan),
              ElementsAre("copy tp=0 [nothing, 0..2]", "copy tp=1 [0..5, 0..2]", "copy tp=2 [nothing, 0..2]"));
}

// An expert is a part of the name, and its ranks alone hold it.
TEST(PlannerTest, TensorsThatAreOnlyAtSomeCoordinates) {
  TensorCut first{{Tp(N(4))}, {}, {{"ep", {0}}}};
  TensorCut second{{Tp(N(4))}, {}, {{"ep", {1, 2}}}};
  Compiled compiled = Compiles({{first, second},
                                {{{N(4)}, {}, {{"ep", {0, 1}}}}, {{N(4)}, {}, {{"ep", {1}}}}},
                                Over({{{"ep", 3}, {"tp", 2}}}),
                                Over({{{"ep", 2}}})});
  EXPECT_THAT(Reads(compiled.plan),
              ElementsAre("copy ep=0 tp=0 [0..2]", "copy ep=0 tp=1 [2..4]", "copy ep=1 tp=0 [0..2]",
                          "copy ep=1 tp=1 [2..4]", "compare ep=2 tp=0 [0..2]", "compare ep=2 tp=1 [2..4]"));
}

std::vector<std::int64_t> Terms(const Plan& plan) {
  std::vector<std::int64_t> terms;
  for (const PlanRead& read : plan.reads) terms.push_back(read.term);
  return terms;
}

// Over the other axis the copies are still equal.
TEST(PlannerTest, AMeanHasATermForEachOfItsRanks) {
  Strategy from = Over({{{"ep", 2}, {"tp", 3}}});
  Compiled over_tp = Compiles({{{{N(4)}, {}, {}, {"tp"}}}, {{{N(4)}}}, from, OverTp(2)});
  EXPECT_EQ(over_tp.plan.tensors[0].arithmetic.terms, 3);
  EXPECT_THAT(Reads(over_tp.plan),
              ElementsAre("copy ep=0 tp=0 [0..4]", "compare ep=1 tp=0 [0..4]", "copy ep=0 tp=1 [0..4]",
                          "compare ep=1 tp=1 [0..4]", "copy ep=0 tp=2 [0..4]", "compare ep=1 tp=2 [0..4]"));
  EXPECT_THAT(Terms(over_tp.plan), ElementsAre(0, 0, 1, 1, 2, 2));

  Compiled over_both = Compiles({{{{N(4)}, {}, {}, {"tp", "ep"}}}, {{{N(4)}}}, from, OverTp(2)});
  EXPECT_THAT(Terms(over_both.plan), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(over_both.plan.reads[4].coordinate, (Coordinate{{{"ep", 1}, {"tp", 1}}}));
}

TEST(PlannerTest, NoWeightIsTheRoundingOfAMean) {
  Strategy from = OverTp(2);
  from.weights = true;
  Compiled compiled = Compiles({{{{N(4)}, {}, {}, {"tp"}}}, {{{N(4)}}}, from, OverTp(1)});
  EXPECT_THAT(Reads(compiled.plan),
              ElementsAre("copy tp=0 [0..4]", "unused tp=0 [0..4]", "copy tp=1 [0..4]", "unused tp=1 [0..4]"));
  EXPECT_EQ(compiled.plan.reads[1].reason, "its tensor is the mean of 2 ranks, of which no weight is the rounding");
}

TEST(PlannerTest, EachTermMustBeThere) {
  Side source = Build({{{N(6)}, {}, {}, {"tp"}}}, OverTp(3));
  std::erase_if(source.files.storage.shards, [](const Shard& shard) { return shard.coordinate.At("tp") == 1; });
  EXPECT_THAT(Refusal(source, Build({{{N(6)}}}, OverTp(1))),
              testing::HasSubstr("averages tensor `t0` over 3 copies, and the checkpoint has 1"));
}

TEST(PlannerTest, MastersFollowAChangeOfScale) {
  Strategy masters_only = OverTp(1);
  masters_only.moments = false;
  Side source = Build({{{N(4)}}}, masters_only);
  Side target = Build({{{N(4)}}}, masters_only);
  source.layout.tensors[0].scale = {1, 4};
  target.layout.tensors[0].scale = {1, 2};
  Plan plan = llvm::cantFail(MakePlan(source, target));
  EXPECT_EQ(plan.tensors[0].arithmetic, (Arithmetic{1, {1, 4}, {1, 2}}));

  target.layout.tensors[0].scale = {2, 8};  // The same number: bits are copied.
  plan = llvm::cantFail(MakePlan(source, target));
  EXPECT_EQ(plan.tensors[0].arithmetic, Arithmetic{});

  target.layout.tensors[0].scale = {-1, 2};
  EXPECT_EQ(Refusal(source, target),
            "tensor `t0` is stored times -1 / 2 by oracle.ucp:1, and only positive scales are supported");
}

TEST(PlannerTest, MomentsDoNotFollowAChangeOfScale) {
  Side source = Build({{{N(4)}}}, OverTp(1));
  Side target = Build({{{N(4)}}}, OverTp(1));
  source.layout.tensors[0].scale = {1, 4};
  EXPECT_EQ(Refusal(source, target),
            "tensor `t0` is stored times 1 / 4, and would be times 1 / 1 in the target, by oracle.ucp:1: `exp_avg` "
            "cannot be converted, because the optimizer's learning rate and epsilon would still be those of the "
            "numbers as they are; only a tensor without moments can change its scale");
}

// As Muon's momentum is of whole matrices, where masters are cut.
TEST(PlannerTest, StatesThatLieElsewhereAreReadFromShardsOfTheirOwn) {
  Strategy from = OverTp(2);
  from.apart = true;
  from.weights = true;
  Compiled compiled = Compiles({{{{N(4)}, {}}}, {{{N(4)}, {}}}, from, OverTp(1)});
  EXPECT_THAT(Reads(compiled.plan), ElementsAre("copy tp=0 [0..4]", "copy tp=0 [0..4]", "compare tp=1 [0..4]",
                                                "compare tp=1 [0..4]", "check tp=0 [0..4]", "check tp=1 [0..4]"));
  Side source = Build({{{Tp(N(4))}, {}}}, from);
  std::erase_if(source.files.storage.shards, [&](const Shard& shard) {
    return source.files.storage.buffer_set(shard.states).front().state == "exp_avg" && shard.coordinate.At("tp") == 1;
  });
  EXPECT_THAT(Refusal(source, Build({{{N(4)}, {}}}, OverTp(1))),
              testing::StartsWith("the shards of tensor `t0` hold `exp_avg` of 2 of its 4 elements; are"));
}

TEST(JoinTest, NamesBothFilesWhenStatesDiffer) {
  Side source = Build({{{N(4)}, {}}}, OverTp(2));
  Storage& storage = source.files.storage;
  storage.buffers[storage.buffer_sets[1][1].buffer.index()].dtype = DType::kFloat64;
  auto tensors = JoinTensors(source.layout, AsInventory(source));
  ASSERT_FALSE(static_cast<bool>(tensors));
  EXPECT_EQ(TakeFailure(tensors.takeError()).message,
            "tensor `t0` has the states exp_avg bfloat16, fp32 float32 in `data/at_tp0_rank0_exp_avg.bin` and exp_avg "
            "bfloat16, fp32 float64 in `data/at_tp1_rank0_exp_avg.bin`");
}

TEST(JoinTest, ShardsHaveTheSameStatesOrNoneInCommon) {
  Strategy from = OverTp(2);
  from.apart = true;
  Side source = Build({{{N(4)}, {}}}, from);
  auto tensors = JoinTensors(source.layout, AsInventory(source));
  ASSERT_TRUE(static_cast<bool>(tensors));
  EXPECT_EQ((*tensors)[0].states.size(), 2u);
  EXPECT_EQ((*tensors)[0].states.front().name, "exp_avg");
  Storage& storage = source.files.storage;
  storage.buffer_sets.back().push_back(storage.buffer_sets.front().front());
  EXPECT_FALSE(static_cast<bool>(JoinTensors(source.layout, AsInventory(source)))) << "two share one of their states";
}

TEST(JoinTest, RefusesTensorsThatTheLayoutLacksAndShardsWithoutStates) {
  Side source = Build({{{N(4)}, {}}, {{N(4)}, {}}}, OverTp(1));
  source.layout.tensors.pop_back();
  auto unknown = JoinTensors(source.layout, AsInventory(source));
  ASSERT_FALSE(static_cast<bool>(unknown));
  EXPECT_EQ(TakeFailure(unknown.takeError()).message,
            "tensor `t1` of `data/at_tp0_rank0_exp_avg.bin` is not in the layout");

  source = Build({{{N(4)}, {}}}, OverTp(2));
  source.files.storage.buffer_sets[1].clear();
  auto bare = JoinTensors(source.layout, AsInventory(source));
  ASSERT_FALSE(static_cast<bool>(bare));
  EXPECT_EQ(TakeFailure(bare.takeError()).message, "tensor `t0` at tp=1 has no states at all");
}

}  // namespace
}  // namespace ucp::oracle
