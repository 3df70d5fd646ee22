#include "compiler/formats/megatron/rules/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::megatron {
namespace {

using pytorch::MakeBool;
using pytorch::MakeDouble;
using pytorch::MakeText;
using ::testing::ElementsAre;

pytorch::ValuePtr Settings(double decay, std::vector<pytorch::Entry> more) {
  more.push_back({MakeText("wd_mult"), MakeDouble(decay)});
  return pytorch::MakeDict(std::move(more));
}

// The parameters that Megatron Core 0.16.1 marks as those of the embedding and the head.
TEST(GroupsTest, WordEmbeddingsAndTheHeadHaveARateOfTheirOwn) {
  Common common;
  common.groups = {Settings(1, {{MakeText("is_decoupled_lr"), MakeBool(false)}}),
                   Settings(0, {{MakeText("is_decoupled_lr"), MakeBool(false)}}),
                   Settings(1, {{MakeText("is_decoupled_lr"), MakeBool(true)}})};
  const std::vector<Parameter> parameters = {{"embedding.word_embeddings.weight", 2},
                                             {"embedding.position_embeddings.weight", 2},
                                             {"decoder.final_layernorm.weight", 1},
                                             {"output_layer.weight", 2},
                                             {"output_layer.bias", 1}};
  const Groups dealt = DealIntoGroups(common, parameters);
  ASSERT_EQ(dealt.unread, "");
  EXPECT_THAT(dealt.groups[0].parameters, ElementsAre("embedding.position_embeddings.weight"));
  EXPECT_THAT(dealt.groups[1].parameters, ElementsAre("decoder.final_layernorm.weight", "output_layer.bias"));
  EXPECT_THAT(dealt.groups[2].parameters, ElementsAre("embedding.word_embeddings.weight", "output_layer.weight"));
}

// Releases before `--decoupled-lr` have no `is_decoupled_lr`.
TEST(GroupsTest, ComparesTheSettingsThatGroupsHave) {
  const OptimizerGroup decays{Settings(1, {}), nullptr, {}};
  const OptimizerGroup other{Settings(1, {{MakeText("is_decoupled_lr"), MakeBool(false)}}), nullptr, {}};
  EXPECT_TRUE(HaveOneKey(decays, {Settings(1, {}), nullptr, {}}));
  EXPECT_FALSE(HaveOneKey(decays, {Settings(0, {}), nullptr, {}}));
  EXPECT_FALSE(HaveOneKey(decays, other));
  EXPECT_FALSE(HaveOneKey(other, decays));
}

}  // namespace
}  // namespace ucp::megatron
