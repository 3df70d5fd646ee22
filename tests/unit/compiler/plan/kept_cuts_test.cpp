#include "compiler/plan/kept_cuts.h"

#include <gtest/gtest.h>

#include <functional>

namespace ucp {
namespace {

// One tensor in two shards on both sides, the second in two parts; only the numbers that are compared.
Plan TwoShards() {
  Plan plan;
  plan.source_format = plan.target_format = "dcp";
  plan.tensors.resize(1);
  for (StorageTables* tables : {&plan.source, &plan.target}) {
    tables->records.resize(3);
    const BufferId whole = tables->Add(Buffer{DType::kFloat32, 6, {{RecordId(0), 0, 6}}});
    const BufferId cut = tables->Add(Buffer{DType::kFloat32, 3, {{RecordId(1), 0, 3}, {RecordId(2), 0, 3}}});
    tables->Add(BufferSet{{"exp_avg", whole}, {"fp32", whole}});
    tables->Add(BufferSet{{"fp32", cut}});
  }
  for (const std::size_t number : {0U, 1U}) {
    PlanRead& read = plan.reads.emplace_back();
    read.tensor = TensorId(0);
    read.set = SetId(number);
    read.states = BufferSetId(number);
    PlanWrite& write = plan.writes.emplace_back();
    write.pieces.push_back({TensorId(0), SetId(1 - number)});
    write.states = BufferSetId(1 - number);
  }
  return plan;
}

bool KeepsAfter(const std::function<void(Plan&)>& change) {
  Plan plan = TwoShards();
  change(plan);
  return KeepsCuts(plan);
}

TEST(KeptCuts, InAnyOrder) {
  EXPECT_TRUE(KeepsCuts(TwoShards()));
  EXPECT_TRUE(KeepsAfter([](Plan& plan) { plan.reads[0].base = 64; })) << "a place in a buffer of one part";
  EXPECT_TRUE(KeepsAfter([](Plan& plan) { plan.reads[0].role = ReadRole::kUnused; })) << "a replica";
}

TEST(KeptCuts, EveryDifferenceCounts) {
  const std::vector<std::pair<const char*, std::function<void(Plan&)>>> changes = {
      {"format", [](Plan& plan) { plan.target_format = "universal"; }},
      {"set", [](Plan& plan) { plan.writes[0].pieces[0].set = SetId(2); }},
      {"tensor", [](Plan& plan) { plan.writes[0].pieces[0].tensor = TensorId(1); }},
      {"a shard more", [](Plan& plan) { plan.reads.push_back(plan.reads[0]); }},
      {"two alike", [](Plan& plan) { plan.reads[1] = plan.reads[0]; }},
      {"state", [](Plan& plan) { plan.target.buffer_sets[0][0].state = "momentum"; }},
      {"a state less", [](Plan& plan) { plan.target.buffer_sets[0].pop_back(); }},
      {"dtype", [](Plan& plan) { plan.target.buffers[1].dtype = DType::kBFloat16; }},
      {"parts", [](Plan& plan) { plan.target.buffers[1].parts.push_back({RecordId(0), 0, 3}); }},
      {"length of parts", [](Plan& plan) { plan.target.buffers[1].part_elements = 4; }},
      {"place in parts", [](Plan& plan) { plan.reads[1].base = 2; }},
      {"spread", [](Plan& plan) { plan.reads[1].spread = Spread::kEachTensor; }},
      {"strides", [](Plan& plan) { plan.reads[0].strides = {1, 2}; }},
      {"fused", [](Plan& plan) { plan.writes[0].fused.emplace().name = "ab"; }},
      {"scale", [](Plan& plan) { plan.tensors[0].arithmetic.factor.numerator = 2; }},
      {"offset", [](Plan& plan) { plan.tensors[0].arithmetic.offset = -1; }},
      {"mean", [](Plan& plan) { plan.tensors[0].arithmetic.terms = 2; }},
  };
  for (const auto& [name, change] : changes) EXPECT_FALSE(KeepsAfter(change)) << name;
}

}  // namespace
}  // namespace ucp
