#include "compiler/formats/megatron/write/target_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::megatron {
namespace {

// Of a job with 2 tensor-parallel, 2 expert-parallel and 4 data-parallel ranks, and the state of a random generator.
TargetArgs ArgsWith(std::optional<std::int64_t> TargetOptions::* setting, std::int64_t ranks, const char* seeds) {
  TrainingState training;
  auto& client = training.ranks.emplace_back().client;
  client.push_back({pytorch::MakeText("args"),
                    pytorch::MakeDict({{pytorch::MakeText("tensor_model_parallel_size"), pytorch::MakeInteger(2)},
                                       {pytorch::MakeText("expert_model_parallel_size"), pytorch::MakeInteger(2)},
                                       {pytorch::MakeText("data_parallel_size"), pytorch::MakeInteger(4)}})});
  client.push_back({pytorch::MakeText(seeds), pytorch::MakeNone()});
  TargetOptions options;
  options.sharding = kOwnBuffers;
  options.*setting = ranks;
  return ArgsOf(options, training);
}

constexpr const char* kSeeds = "rng_state/shard_0.1_1.2";
constexpr const char* kSeedsOfReplicas = "rng_state/shard_0.1.3_1.2.4";

TEST(TargetArgs, SeedsAreThoseOfTheSameRanks) {
  EXPECT_TRUE(ArgsWith(&TargetOptions::replicas, 4, kSeedsOfReplicas).has_seeds);
  EXPECT_TRUE(ArgsWith(&TargetOptions::replicas, 2, kSeeds).has_seeds);
  EXPECT_FALSE(ArgsWith(&TargetOptions::replicas, 2, kSeedsOfReplicas).has_seeds);
  EXPECT_FALSE(ArgsWith(&TargetOptions::expert_parallel, 1, kSeeds).has_seeds);
  EXPECT_FALSE(ArgsWith(&TargetOptions::tensor_parallel, 1, kSeeds).has_seeds);
  EXPECT_FALSE(ArgsWith(&TargetOptions::stages, 2, kSeeds).has_seeds);
}

TEST(TargetArgs, TensorParallelismOfTheSource) {
  EXPECT_FALSE(ArgsWith(&TargetOptions::tensor_parallel, 2, kSeeds).has_other_tensor_parallel);
  EXPECT_TRUE(ArgsWith(&TargetOptions::tensor_parallel, 4, kSeeds).has_other_tensor_parallel);
}

}  // namespace
}  // namespace ucp::megatron
