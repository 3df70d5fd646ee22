// The verifier on written shards that are fused of several tensors, and its search for places that two pieces share.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <random>

#include "compiler/support/error.h"
#include "compiler/verifier/pieces_apart.h"
#include "tests/unit/compiler/planner/conversion.h"
#include "tests/unit/compiler/verifier/verdict.h"

namespace ucp::oracle {
namespace {

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }

// q [2, 3], k [2, 3] and v [3]. In the shard `qkv` [2, 9] the elements of a row of q alternate with those of k, and v
// stands behind them in the first row; the second row ends with three free places.
//
//     q0 k0 q1 k1 q2 k2 v0 v1 v2
//     q3 k3 q4 k4 q5 k5  .  .  .
Plan QkvPlan() {
  const TensorCut rows{{N(2), N(3)}};
  const TensorCut one{{N(3)}};
  Side source = Build({rows, rows, one}, {});
  Side target = Build({rows, rows, one}, {});
  // The target's three shards become one, in the files of the first tensor's.
  Storage& storage = target.files.storage;
  Shard shard = storage.shards[0];
  shard.tensor = "qkv";
  shard.shape = {2, 9};
  shard.pieces = {{"t2", ProductSet::Whole({3}), 6, {}},
                  {"t0", ProductSet::Whole({2, 3}), 0, {9, 2}},
                  {"t1", ProductSet::Whole({2, 3}), 1, {9, 2}}};
  target.files = TargetFiles();
  target.files.format = "oracle";
  target.files.directories = {"data"};
  BufferSet set;
  for (const char* state : {"exp_avg", "fp32"}) {
    const DType dtype = state[0] == 'f' ? DType::kFloat32 : DType::kBFloat16;
    const auto bytes = static_cast<std::uint64_t>(18 * ItemBytes(dtype));
    const FileId file = target.files.storage.Add(StoredFile{fmt::format("data/{}.bin", state), 16 + bytes, ""});
    const RecordId record = target.files.storage.Add(Record{file, 16, bytes, std::nullopt});
    set.push_back({state, target.files.storage.Add(Buffer{dtype, 18, {BufferPart{record, 0, 18}}})});
    target.files.placements.push_back({file, 0, target.files.AddBlob(std::string(16, 'h'))});
    target.files.crc_fields.push_back({file, 4, record});
  }
  shard.states = target.files.storage.Add(set);
  target.files.storage.shards = {shard};
  auto plan = MakePlan(source, target);
  if (!plan) ADD_FAILURE() << TakeFailure(plan.takeError()).message;
  return std::move(*plan);
}

TEST(VerifierOfFusedShardsTest, EveryFieldCounts) {
  EXPECT_EQ(Verdict(QkvPlan()), "sound");
  std::vector<Mutation> mutations = {
      {"a piece of another tensor", [](Plan& p) { p.writes[0].pieces[1].tensor = TensorId(0); },
       "is in no shard of the target"},
      {"an unknown tensor", [](Plan& p) { p.writes[0].pieces[2].tensor = TensorId(7); }, "names tensor 7"},
      {"an unknown set", [](Plan& p) { p.writes[0].pieces[2].set = SetId(9); }, "names product set 9"},
      {"another set", [](Plan& p) { p.writes[0].pieces[2].set = p.writes[0].pieces[1].set; },
       "has 1 dimensions and a shard of 2"},
      {"out of order", [](Plan& p) { std::swap(p.writes[0].pieces[0], p.writes[0].pieces[1]); },
       "are not sorted by tensor"},
      {"one piece less", [](Plan& p) { p.writes[0].pieces.pop_back(); }, "is in no shard of the target"},
      {"one piece twice", [](Plan& p) { p.writes[0].pieces.push_back(p.writes[0].pieces.back()); },
       "two pieces of a shard of tensor `qkv` have one place"},
      {"begins elsewhere", [](Plan& p) { p.writes[0].pieces[1].begin = 2; }, "have one place"},
      {"begins behind", [](Plan& p) { p.writes[0].pieces[2].begin = 16; },
       "begins at element 16 of `qkv`, which has 18"},
      {"begins before", [](Plan& p) { p.writes[0].pieces[0].begin = -1; }, "begins at element -1"},
      {"begins very far", [](Plan& p) { p.writes[0].pieces[0].begin = std::int64_t{1} << 62; }, "and leaves it"},
      {"another stride", [](Plan& p) { p.writes[0].pieces[0].strides[1] = 3; }, "have one place"},
      {"rows too far apart", [](Plan& p) { p.writes[0].pieces[0].strides[0] = 14; }, "and leaves it"},
      {"rows within rows", [](Plan& p) { p.writes[0].pieces[0].strides[0] = 4; }, "has strides that cannot be"},
      {"no distance", [](Plan& p) { p.writes[0].pieces[0].strides[1] = 0; }, "has strides that cannot be"},
      {"a negative stride", [](Plan& p) { p.writes[0].pieces[0].strides[1] = -2; }, "has strides that cannot be"},
      {"a huge stride", [](Plan& p) { p.writes[0].pieces[0].strides[0] = std::int64_t{1} << 62; },
       "has strides that cannot be"},
      {"a stride less", [](Plan& p) { p.writes[0].pieces[0].strides.pop_back(); }, "has strides that cannot be"},
      {"row-major", [](Plan& p) { p.writes[0].pieces[0].strides.clear(); }, "have one place"},
      {"a longer shard", [](Plan& p) { p.writes[0].fused->shape = {2, 10}; }, "does not fit its place"},
      {"a shorter shard", [](Plan& p) { p.writes[0].fused->shape = {2, 8}; },
       "48 bytes of `data/exp_avg.bin` would be written, and it has 52"},
      {"a much shorter shard", [](Plan& p) { p.writes[0].fused->shape = {2, 7}; }, "which has 14, and leaves it"},
      {"a shard of negative length", [](Plan& p) { p.writes[0].fused->shape = {-2, -9}; }, "a shape that cannot be"},
      {"a huge shard", [](Plan& p) { p.writes[0].fused->shape = {std::int64_t{1} << 40, std::int64_t{1} << 40}; },
       "a shape that cannot be"},
      {"no name", [](Plan& p) { p.writes[0].fused->name = ""; }, "has no name"},
      {"not fused", [](Plan& p) { p.writes[0].fused = std::nullopt; }, "in a shard that is not fused"},
      {"another arithmetic", [](Plan& p) { p.tensors[1].arithmetic.factor = {1, 2}; }, ""},
      {"another type in the source",
       [](Plan& p) {
         const StateBuffer& master = p.source.buffer_set(ReadOf(p, 1, ReadRole::kCopy).states)[1];
         p.source.buffers[master.buffer.index()].dtype = DType::kInt32;
         p.tensors[1].logical.states[1].dtype = DType::kInt32;
       },
       "are pieces of one shard, and have other types"},
      {"a tensor of its own with free places", [](Plan& p) { p.writes[0].fused->is_tensor = true; },
       "tensor `qkv` of the target has 18 elements, and its pieces have 15"},
      {"a geometry less", [](Plan& p) { p.geometries.pop_back(); }, "has no geometry"},
  };
  ExpectRefused(QkvPlan, mutations);
}

TEST(VerifierOfFusedShardsTest, AWholeTensorHasNoPlaceOfItsOwn) {
  auto plan = [] {
    auto compiled = Compile({{{{N(2), N(3)}}}, {{{N(2), N(3)}}}, {}, {}});
    return std::move(compiled->plan);
  };
  EXPECT_EQ(Verdict(plan()), "sound");
  ExpectRefused(plan, {{"a begin", [](Plan& p) { p.writes[0].pieces[0].begin = 1; }, "in a shard that is not fused"},
                       {"strides", [](Plan& p) { p.writes[0].pieces[0].strides = {3, 1}; }, "that is not fused"}});
}

// How often each place of a shard is real in a piece, place by place.
bool HasACollision(const std::vector<ProductSet>& sets, const std::vector<WrittenPiece>& pieces) {
  std::map<std::int64_t, int> places;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    std::vector<std::int64_t> found = {pieces[p].begin};
    std::vector<std::int64_t> strides = pieces[p].strides;
    if (strides.empty()) {
      strides.resize(sets[p].dims.size());
      std::int64_t stride = 1;
      for (std::size_t d = strides.size(); d-- > 0; stride *= sets[p].dims[d].local_length()) strides[d] = stride;
    }
    for (std::size_t d = 0; d < sets[p].dims.size(); ++d) {
      std::vector<std::int64_t> next;
      for (const Run& run : sets[p].dims[d].runs()) {
        for (std::int64_t i = 0; i < run.length; ++i) {
          for (std::int64_t place : found) next.push_back(place + (run.local_begin + i) * strides[d]);
        }
      }
      found = std::move(next);
    }
    for (std::int64_t place : found) {
      if (places[place]++ > 0) return true;
    }
  }
  return false;
}

// Random grids in one block: strides that divide one another, and some that do not.
TEST(VerifierOfFusedShardsTest, PiecesThatLieApartHaveNoCommonPlace) {
  Random random(TestSeed());
  int apart = 0;
  int unknown = 0;
  for (int i = 0; i < 60000; ++i) {
    std::vector<ProductSet> sets(static_cast<std::size_t>(Pick(random, 1, 4)));
    std::vector<WrittenPiece> pieces(sets.size());
    const bool are_factors = Pick(random, 0, 3) != 0;
    for (std::size_t p = 0; p < sets.size(); ++p) {
      std::int64_t stride = 1;
      pieces[p].begin = Pick(random, 0, 12);
      for (std::int64_t dims = Pick(random, 0, 3); dims > 0; --dims) {
        const std::int64_t length = Pick(random, 1, 3);
        Selection& dim = sets[p].dims.emplace_back();
        for (std::int64_t place = 0; place < length; ++place) {
          if (Pick(random, 0, 3) == 0) {
            dim.AppendPadding(1);
          } else {
            dim.Append(place, 1);
          }
        }
        pieces[p].strides.push_back(stride);
        stride *= are_factors ? length * Pick(random, 1, 2) : length + Pick(random, 0, 2);
      }
    }
    const bool collide = HasACollision(sets, pieces);
    const bool lie_apart = LieApart(sets, pieces);
    ASSERT_FALSE(lie_apart && collide) << i;
    apart += lie_apart ? 1 : 0;
    unknown += !lie_apart && !collide ? 1 : 0;
  }
  std::printf("%d lie apart, %d more do and were not proved to\n", apart, unknown);
  EXPECT_GT(apart, 10000);
  EXPECT_LT(unknown, apart);
}

// Fused query, key and value of 96 layers of a hundred billion elements are no more work than a small one.
TEST(VerifierOfFusedShardsTest, TimeDoesNotGrowWithTheElements) {
  const std::int64_t row = std::int64_t{1} << 14;
  std::vector<ProductSet> sets;
  std::vector<WrittenPiece> pieces;
  std::int64_t begin = 0;
  for (std::int64_t heads : {8, 1, 1}) {
    sets.push_back(ProductSet::Whole({1024, heads * 128, row}));
    pieces.push_back({TensorId(0), SetId(0), begin, {10 * 128 * row, row, 1}});
    begin += heads * 128 * row;
  }
  EXPECT_TRUE(LieApart(sets, pieces));
  pieces[1].begin -= 1;
  EXPECT_FALSE(LieApart(sets, pieces));
}

}  // namespace
}  // namespace ucp::oracle
