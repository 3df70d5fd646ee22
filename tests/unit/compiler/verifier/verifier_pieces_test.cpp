// The verifier on plans whose shards are lists of pieces, terms of a mean, or weights cast from masters.
#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"
#include "tests/unit/compiler/verifier/verdict.h"

namespace ucp::oracle {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Tp(ShapeExpr inner) { return ShapeExpr::Cut(std::move(inner), {"tp"}); }

// One tensor of six positions, listed 4, 5, 2 and 3, 1, 0, 5: two pieces and three.
Plan ListedPlan() {
  ShapeExpr listed = Tp(N(6));
  listed.rule = CutRule::kList;
  listed.lists = {{4, 5, 2}, {3, 1, 0, 5}};
  auto compiled = Compile({{{{listed}}}, {{{listed}}}, {{{{"tp", 2}}}}, {{{{"tp", 2}}}}});
  if (!compiled) ADD_FAILURE() << TakeFailure(compiled.takeError()).message;
  return std::move(compiled->plan);
}

TEST(VerifierOfPiecesTest, PiecesShareOutTheirShard) {
  EXPECT_EQ(Verdict(ListedPlan()), "sound");
  std::vector<Mutation> mutations = {
      {"a piece less", [](Plan& p) { p.writes[1].pieces.pop_back(); }, "is in no shard of the target"},
      {"a piece twice", [](Plan& p) { p.writes[1].pieces.push_back(p.writes[1].pieces[0]); },
       "two pieces of a shard of tensor `t0` have one place"},
      {"no piece", [](Plan& p) { p.writes[0].pieces.clear(); }, "a written shard has no pieces"},
      {"a piece of the other shard", [](Plan& p) { p.writes[0].pieces.push_back(p.writes[1].pieces[0]); },
       "the pieces of a shard of tensor `t0` have the local shapes [3] and [4]"},
      {"an unknown piece", [](Plan& p) { p.writes[0].pieces[1].set = SetId(99); }, "names product set 99"},
      {"two places of one element",
       [](Plan& p) {
         Selection moved;  // Of the second rank's first piece, at the place of its second.
         moved.AppendPadding(1), moved.Append(3, 1), moved.AppendPadding(2);
         p.sets[ReadOf(p, 0, ReadRole::kCopy, 2).set.index()].dims[0] = moved;
       },
       ""},
  };
  ExpectRefused(ListedPlan, mutations);
}

// One tensor of four elements, the mean of two ranks.
Plan AveragedPlan() {
  auto compiled = Compile({{{{N(4)}, {}, {}, {"tp"}}}, {{{N(4)}}}, {{{{"tp", 2}}}}, {}});
  if (!compiled) ADD_FAILURE() << TakeFailure(compiled.takeError()).message;
  return std::move(compiled->plan);
}

TEST(VerifierOfPiecesTest, EachTermIsThereOnce) {
  EXPECT_EQ(Verdict(AveragedPlan()), "sound");
  std::vector<Mutation> mutations = {
      {"a term less", [](Plan& p) { p.tensors[0].arithmetic.terms = 1; }, "has 1 terms, and a shard is term 1"},
      {"a term more", [](Plan& p) { p.tensors[0].arithmetic.terms = 3; }, "has 3 terms and 2 shards"},
      {"no terms", [](Plan& p) { p.tensors[0].arithmetic.terms = 0; }, "is the mean of 0 terms"},
      {"many terms", [](Plan& p) { p.tensors[0].arithmetic.terms = kHuge; }, "terms and 2 shards"},
      {"both are the first", [](Plan& p) { p.reads[1].term = 0; }, "is in two shards of the source"},
      {"both are the second", [](Plan& p) { p.reads[0].term = 1; }, "is in no shard of the source"},
      {"out of order", [](Plan& p) { std::swap(p.reads[0].term, p.reads[1].term); }, "its reads are not sorted"},
      {"a negative term", [](Plan& p) { p.reads[0].term = -1; }, "a shard is term -1"},
      {"one rank is both", [](Plan& p) { p.reads[1].states = p.reads[0].states; }, ""},
      {"numbers that cannot be added", [](Plan& p) { p.tensors[0].logical.states[0].dtype = DType::kInt16; },
       "is int16, and cannot be added"},
      {"scaled moments", [](Plan& p) { p.tensors[0].arithmetic.divisor = {1, 2}; },
       "state exp_avg of tensor `t0` would be scaled"},
      {"divided by zero", [](Plan& p) { p.tensors[0].arithmetic.divisor = {0, 1}; }, "a number that is not positive"},
      {"times infinity", [](Plan& p) { p.tensors[0].arithmetic.factor = {1, 0}; }, "a number that is not positive"},
  };
  ExpectRefused(AveragedPlan, mutations);
}

// One tensor of four elements over two ranks, of which the target holds the weight alone, made from the master.
Plan CastPlan() {
  Strategy rounded;
  rounded.rounded = DType::kBFloat16;
  rounded.trained = false;
  Strategy halves{{{{"tp", 2}}}, Style::kSingle};
  auto compiled = Compile({{{{Tp(N(4))}}}, {{{N(4)}}}, halves, rounded});
  if (!compiled) ADD_FAILURE() << TakeFailure(compiled.takeError()).message;
  return std::move(compiled->plan);
}

TEST(VerifierOfPiecesTest, OnlyNumbersOfOneTypeAreCast) {
  EXPECT_EQ(Verdict(CastPlan()), "sound");
  std::vector<Mutation> mutations = {
      {"to an integer", [](Plan& p) { p.target.buffers[0].dtype = DType::kInt16; },
       "`weight` of tensor `t0` is float32 in the source and int16 in the target"},
      {"to eight bits", [](Plan& p) { p.target.buffers[0].dtype = DType::kFloat8E5M2; }, "and float8_e5m2 in the"},
      {"a source of integers",
       [](Plan& p) {
         for (Buffer& buffer : p.source.buffers) buffer.dtype = DType::kInt16;
       },
       "`weight` of tensor `t0` is float32, and would be read as int16 at tp=0"},
      {"another type on one rank", [](Plan& p) { p.source.buffers[3].dtype = DType::kBFloat16; },
       "and would be read as bfloat16 at tp=1"},
      {"integers all along",
       [](Plan& p) {
         for (Buffer& buffer : p.source.buffers) buffer.dtype = DType::kInt16;
         p.tensors[0].logical.states[0].dtype = DType::kInt16;
       },
       "is int16 in the source and bfloat16 in the target"},
      {"a weight without a master",
       [](Plan& p) {
         for (BufferSet& set : p.source.buffer_sets) set.pop_back();
       },
       "state weight, is in no shard of the source"},
      {"a master on one rank alone", [](Plan& p) { p.source.buffer_sets[1].back().state = kWeightState; },
       "weights of tensor `t0` would be made of masters at tp=0, and not at tp=1"},
  };
  ExpectRefused(CastPlan, mutations);
}

}  // namespace
}  // namespace ucp::oracle
