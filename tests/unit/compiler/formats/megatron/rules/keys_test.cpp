#include "compiler/formats/megatron/rules/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

dcp::Entry Named(std::string key, bool is_tensor) {
  dcp::Entry entry;
  entry.key = std::move(key);
  entry.is_tensor = is_tensor;
  return entry;
}

std::string RefusalOf(const std::vector<dcp::Entry>& entries) {
  auto keys = SortKeys(entries);
  return keys ? "" : TakeFailure(keys.takeError()).message;
}

TEST(SortKeysTest, TellsWhatEachIs) {
  const std::vector<dcp::Entry> entries = {Named("decoder.layers.mlp.linear_fc1.weight", true),
                                           Named("optimizer.state.exp_avg.decoder.layers.mlp.linear_fc1.weight", true),
                                           Named("chained_1.optimizer.state.fp32_param.a.b", true),
                                           Named("rng_state/shard_0.1_2.4", false),
                                           Named("optimizer.distributed.dp_group_idx_0.gbuf_idx_0.param", true)};
  const Keys keys = llvm::cantFail(SortKeys(entries));
  EXPECT_THAT(keys.tensors, ElementsAre(&entries[0]));
  ASSERT_EQ(keys.states.size(), 2u);
  EXPECT_EQ(keys.states[0].state, "exp_avg");
  EXPECT_EQ(keys.states[0].tensor, entries[0].key);
  EXPECT_EQ(keys.states[1].state, "fp32");
  EXPECT_EQ(keys.states[1].tensor, "a.b");
  ASSERT_EQ(keys.objects.size(), 1u);
  EXPECT_EQ(keys.objects[0].object, "rng_state");
  EXPECT_THAT(keys.objects[0].place, ElementsAre(0, 1));
  EXPECT_THAT(keys.objects[0].shape, ElementsAre(2, 4));
  EXPECT_THAT(keys.buffers, ElementsAre(&entries[4]));
}

TEST(SortKeysTest, RefusesWhatItDoesNotKnow) {
  for (const char* key :
       {"step", "a/shard_", "a/shard_1", "a/shard_x_2", "a/shard_1_", "a/shard_-1_2", "a/shard_1_2.3"}) {
    EXPECT_THAT(RefusalOf({Named(key, false)}), HasSubstr("its key does not end with a place")) << key;
  }
  EXPECT_THAT(RefusalOf({Named("optimizer.state.param.a", true), Named("optimizer.state.fp32_param.a", true)}),
              HasSubstr("is a second state `fp32` of `a`"));
}

TEST(StackedDimensionsTest, AreThoseWithoutNumbers) {
  EXPECT_EQ(StackedDimensions("decoder.layers.mlp.linear_fc1.weight"), 1u);
  EXPECT_EQ(StackedDimensions("decoder.layers.3.mlp.linear_fc1.weight"), 0u);
  EXPECT_EQ(StackedDimensions("decoder.layers.mlp.experts.experts.linear_fc1.weight"), 2u);
  EXPECT_EQ(StackedDimensions("decoder.layers.3.mlp.experts.experts.linear_fc1.weight"), 1u);
  EXPECT_EQ(StackedDimensions("decoder.layers.3.mlp.experts.experts.2.linear_fc1.weight"), 0u);
  EXPECT_EQ(StackedDimensions("embedding.word_embeddings.weight"), 0u);
  EXPECT_EQ(StackedDimensions("mtp.layers.0.eh_proj.weight"), 0u);
  EXPECT_EQ(StackedDimensions("multilayers.weight"), 0u);
}

}  // namespace
}  // namespace ucp::megatron
