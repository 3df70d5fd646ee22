// The verifier on shards that are parts of tensors of the target's own.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"
#include "tests/unit/compiler/verifier/verdict.h"

namespace ucp::oracle {
namespace {

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }

Selection Positions(std::int64_t begin, std::int64_t length, std::int64_t padding = 0) {
  Selection selection;
  selection.Append(begin, length);
  selection.AppendPadding(padding);
  return selection;
}

// The shard of one rank: a row of q and the same row of k, of which the target's own tensor alternates.
//
//     q [2, 3]  k [2, 3]     qk [2, 6]    q0 k0 q1 k1 q2 k2  .  .     rank 0, [1, 8]
//                                         q3 k3 q4 k4 q5 k5  .  .     rank 1
void AddRow(std::int64_t row, TargetFiles& files) {
  Storage& storage = files.storage;
  Shard shard;
  shard.tensor = "qk";
  shard.coordinate.at["tp"] = row;
  shard.shape = {1, 8};
  shard.is_tensor = true;
  shard.pieces = {{"t0", {{Positions(row, 1), Positions(0, 3)}}, 0, {8, 2}},
                  {"t1", {{Positions(row, 1), Positions(0, 3)}}, 1, {8, 2}}};
  BufferSet set;
  for (const char* state : {"exp_avg", "fp32"}) {
    const DType dtype = state[0] == 'f' ? DType::kFloat32 : DType::kBFloat16;
    const auto bytes = static_cast<std::uint64_t>(8 * ItemBytes(dtype));
    const FileId file = storage.Add(StoredFile{fmt::format("data/{}.{}", state, row), 16 + bytes, ""});
    const RecordId record = storage.Add(Record{file, 16, bytes, std::nullopt});
    set.push_back({state, storage.Add(Buffer{dtype, 8, {BufferPart{record, 0, 8}}})});
    files.placements.push_back({file, 0, files.AddBlob(std::string(16, 'h'))});
    files.crc_fields.push_back({file, 4, record});
  }
  shard.states = storage.Add(set);
  files.own_parts[storage.shards.size()] = {{2, 6}, {{Positions(row, 1), Positions(0, 6, 2)}}};
  storage.shards.push_back(std::move(shard));
}

Plan RowsPlan() {
  const TensorCut rows{{N(2), N(3)}};
  Side source = Build({rows, rows}, {});
  Side target = Build({rows, rows}, {});
  target.files = TargetFiles();
  target.files.format = "oracle";
  target.files.mesh.axes = {{"tp", 2}};
  target.files.directories = {"data"};
  for (std::int64_t row = 0; row < 2; ++row) AddRow(row, target.files);
  auto plan = MakePlan(source, target);
  if (!plan) ADD_FAILURE() << TakeFailure(plan.takeError()).message;
  return plan ? std::move(*plan) : Plan{};
}

PartOfOwn& PartOf(Plan& plan, std::size_t write) { return *plan.writes[write].fused->part; }

// Gives both ranks' parts another shape of their tensor.
void Reshape(Plan& plan, const std::vector<std::int64_t>& shape) {
  for (PlanWrite& write : plan.writes) write.fused->part->shape = shape;
}

// Gives the part of the first rank other sets than its own.
template <typename... Sets>
void Hold(Plan& plan, Sets... sets) {
  PartOf(plan, 0).held.clear();
  for (ProductSet& set : std::vector<ProductSet>{std::move(sets)...}) {
    PartOf(plan, 0).held.push_back(SetId(plan.sets.size()));
    plan.sets.push_back(std::move(set));
  }
}

// Padding, positions, and padding.
Selection Shifted(std::int64_t begin, std::int64_t length, std::int64_t before, std::int64_t after) {
  Selection selection;
  selection.AppendPadding(before);
  selection.Append(begin, length);
  selection.AppendPadding(after);
  return selection;
}

// Lets the second rank hold what the first does, by a copy of its set, with q and k in exchanged places.
void HoldAgain(Plan& plan) {
  const ProductSet copy = plan.set(PartOf(plan, 0).held.front());
  plan.writes[1].pieces = plan.writes[0].pieces;
  std::swap(plan.writes[1].pieces[0].begin, plan.writes[1].pieces[1].begin);
  PartOf(plan, 1).held = {SetId(plan.sets.size())};
  plan.sets.push_back(copy);
}

TEST(VerifierOfPartsTest, EveryFieldCounts) {
  EXPECT_EQ(Verdict(RowsPlan()), "sound");
  const std::vector<Mutation> mutations = {
      {"another tensor's shape", [](Plan& p) { PartOf(p, 0).shape = {3, 6}; },
       "tensor `qk` of the target has two shapes"},
      {"a larger tensor", [](Plan& p) { Reshape(p, {3, 6}); },
       "the parts of tensor `qk` of the target, state exp_avg, lack elements"},
      {"a smaller tensor", [](Plan& p) { Reshape(p, {2, 5}); },
       "a part of tensor `qk` of the target holds what that does not have"},
      {"a shape of another rank", [](Plan& p) { Reshape(p, {12}); }, "is of one with a shape that cannot be"},
      {"a negative shape", [](Plan& p) { Reshape(p, {-2, 6}); }, "is of one with a shape that cannot be"},
      {"the other rank's elements", [](Plan& p) { PartOf(p, 0).held = PartOf(p, 1).held; },
       "are put together of others"},
      {"no elements", [](Plan& p) { PartOf(p, 0).held.clear(); }, "says no elements"},
      {"an unknown set", [](Plan& p) { PartOf(p, 0).held = {SetId(99)}; }, "holds what that does not have"},
      {"a set of other places", [](Plan& p) { Hold(p, ProductSet{{Positions(0, 1), Positions(0, 6)}}); },
       "holds what that does not have"},
      {"padding in front",
       [](Plan& p) {
         Selection columns;
         columns.AppendPadding(2);
         columns.Append(0, 6);
         Hold(p, ProductSet{{Positions(0, 1), columns}});
       },
       "a piece of tensor `qk` of the target has a place that holds nothing of it"},
      {"fewer elements", [](Plan& p) { Hold(p, ProductSet{{Positions(0, 1), Positions(0, 5, 3)}}); },
       "has 5 elements, and its pieces have 6"},
      {"one set twice", [](Plan& p) { PartOf(p, 0).held.push_back(PartOf(p, 0).held.front()); },
       "holds an element twice"},
      {"elements at two places",
       [](Plan& p) {
         Hold(p, ProductSet{{Positions(0, 1), Positions(0, 3, 5)}}, ProductSet{{Positions(0, 1), Shifted(0, 3, 3, 2)}});
       },
       "holds an element twice"},
      {"a copy of a set, and other pieces", [](Plan& p) { HoldAgain(p); }, "are put together of others"},
      {"very many sets", [](Plan& p) { PartOf(p, 0).held.resize(4'000'001, PartOf(p, 0).held.front()); },
       "more than 4000000 runs"},
      {"very many dimensions",
       [](Plan& p) {
         PlanWrite& write = p.writes[0];
         write.fused->shape.resize(100'000, 1);
         write.fused->part->shape.resize(100'000, 1);
       },
       "has 100000 dimensions"},
      {"a piece in the padding", [](Plan& p) { p.writes[0].pieces[1].begin = 3; },
       "has a place that holds nothing of it"},
      {"a piece less", [](Plan& p) { p.writes[0].pieces.pop_back(); }, "has 6 elements, and its pieces have 3"},
      {"none of the target's own", [](Plan& p) { p.writes[0].fused->is_tensor = false; },
       "`qk` is a part of a tensor of the target, and none itself"},
      {"all of a tensor", [](Plan& p) { p.writes[0].fused->part = std::nullopt; },
       "tensor `qk` of the target has 8 elements, and its pieces have 6"},
  };
  ExpectRefused(RowsPlan, mutations);
}

}  // namespace
}  // namespace ucp::oracle
