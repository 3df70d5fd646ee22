// DeepSpeed's part of a training state on its way through folders of other formats. That such a folder becomes the same
// native files as its source is for tests/programs.
#include "compiler/formats/deepspeed/common/family_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/source_archives.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Another family's part.
struct OtherState final : FormatState {
  std::string_view family() const override { return "other"; }
  std::vector<Entry> Entries() const override { return {}; }
  std::shared_ptr<const FormatState> Renamed(const std::map<std::string, std::string>&) const override {
    return nullptr;
  }
  std::string WhyNotPublished() const override { return ""; }
  bool knows_layers() const override { return false; }
  std::int64_t remembered_stages() const override { return 1; }
  const std::set<std::int64_t>* RememberedStagesOf(std::string_view) const override { return nullptr; }
  void SpreadExperts(Layout&) const override {}
  llvm::Error PlaceStages(const StageRequest&, Layout&, std::vector<std::string>&) const override {
    return llvm::Error::success();
  }
};

// Reads entries as those of a training file, which a real archive stands for here.
class FamilyStateEntries : public ::testing::Test {
 protected:
  llvm::Expected<std::shared_ptr<const FormatState>> Read(const std::vector<Entry>& entries) {
    Storage storage;
    TrainingState training;
    SourceArchives archives(RealFiles(), testing::FixtureRoot("frozen_buffers_zero2"), storage, training);
    UCP_ASSIGN_OR_RETURN(const SourceArchive archive, archives.Open("global_step4/mp_rank_00_model_states.pt"));
    return ReadState(entries, archive);
  }
};

TEST_F(FamilyStateEntries, CarryAllThatAnotherFormatCannotRead) {
  TrainingState training;
  FamilyState& state = EditState(training);
  state.fused_experts = {"1.mlp.experts.w1", "1.mlp.experts.w2"};
  state.excludes_frozen = true;
  state.expert_layers = {{"1.", 4}};
  state.pipeline.emplace().prefixes = {{1, "1."}};
  const std::vector<Entry> entries = training.format_state->Entries();
  std::vector<std::string> keys;
  for (const Entry& entry : entries) keys.emplace_back(*pytorch::AsText(*entry.key));
  EXPECT_THAT(keys, ElementsAre("fused_experts", "excludes_frozen", "ucp_pipeline", "ucp_experts"));
  auto read = Read(entries);
  ASSERT_TRUE(static_cast<bool>(read)) << TakeFailure(read.takeError()).message;
  TrainingState again;
  again.format_state = *read;
  EXPECT_EQ(StateOf(again).fused_experts, state.fused_experts);
  EXPECT_TRUE(StateOf(again).excludes_frozen);
  EXPECT_EQ(StateOf(again).expert_layers, state.expert_layers);
  EXPECT_EQ(StateOf(again).pipeline, state.pipeline);
}

TEST_F(FamilyStateEntries, AreNoneOfAnotherFamily) {
  auto read = Read({{MakeText("tag"), MakeText("global_step4")}});
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(*read, nullptr);
}

TEST_F(FamilyStateEntries, OfAnotherFormAreDamage) {
  for (const pytorch::ValuePtr& value : {MakeInteger(1), MakeList({MakeInteger(1)})}) {
    auto read = Read({{MakeText("fused_experts"), value}});
    ASSERT_FALSE(static_cast<bool>(read));
    const FailureText failure = TakeFailure(read.takeError());
    EXPECT_EQ(failure.code, ErrorCode::kBadData);
    EXPECT_THAT(failure.message, HasSubstr("_model_states.pt` has no `fused_experts` of the kind"));
  }
}

TEST(FamilyState, OfOtherFamiliesIsNotLookedInto) {
  TrainingState training;
  EXPECT_FALSE(StateOf(training).knows_layers());
  training.format_state = std::make_shared<OtherState>();
  EXPECT_FALSE(StateOf(training).knows_layers());
  EXPECT_TRUE(StateOf(training).fused_experts.empty());
}

TEST(FamilyState, OfACopyIsItsOwn) {
  TrainingState first;
  EditState(first).fused_experts = {"a"};
  TrainingState second = first;
  EditState(second).fused_experts.insert("b");
  EXPECT_THAT(StateOf(first).fused_experts, ElementsAre("a"));
  EXPECT_THAT(StateOf(second).fused_experts, ElementsAre("a", "b"));
}

TEST(FamilyState, IsRenamedWithItsTensors) {
  TrainingState training;
  EditState(training).fused_experts = {"module.experts.w1", "experts.w2"};
  training.format_state = training.format_state->Renamed({{"module.experts.w1", "experts.w1"}});
  EXPECT_THAT(StateOf(training).fused_experts, ElementsAre("experts.w1", "experts.w2"));
  EXPECT_THAT(training.format_state->WhyNotPublished(), HasSubstr("tensor `experts.w1` has the name that"));
}

}  // namespace
}  // namespace ucp::deepspeed
