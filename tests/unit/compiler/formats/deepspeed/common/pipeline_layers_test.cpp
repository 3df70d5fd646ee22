// The trace of a pipeline in a folder of whole tensors. tests/programs show that targets follow from it.
#include "compiler/formats/deepspeed/common/pipeline_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointee;

// Layer 1 is on the first stage, 10 on the second, and the tied module on both.
PipelineLayers TwoStages() {
  PipelineLayers pipeline;
  pipeline.prefixes = {{0, "tied_modules.embed."}, {1, "1."}, {10, "10."}};
  pipeline.has_tensor_axis = true;
  pipeline.stage_count = 2;
  pipeline.stages = {{"1.", {0}}, {"10.", {1}}, {"tied_modules.embed.", {0, 1}}};
  return pipeline;
}

// Nothing if it is refused.
std::optional<PipelineLayers> Read(Entry entry) {
  std::vector<Entry> entries = {{MakeText("iteration"), MakeInteger(4)}, std::move(entry)};
  llvm::Expected<std::optional<PipelineLayers>> found = TakePipelineEntry(entries, "its_file.pt");
  EXPECT_EQ(entries.size(), 1U);
  if (found) return *found;
  EXPECT_THAT(TakeFailure(found.takeError()).message,
              HasSubstr("`ucp_pipeline` in `its_file.pt` does not say which layers"));
  return std::nullopt;
}

// The entry with another value under one key of it.
Entry With(const std::string& key, pytorch::ValuePtr value) {
  Entry entry = PipelineEntry(TwoStages());
  std::vector<Entry> said = *pytorch::Entries(*entry.value);
  std::erase_if(said, [&](const Entry& other) { return pytorch::AsText(*other.key) == key; });
  if (value) said.push_back({MakeText(key), std::move(value)});
  return {entry.key, MakeDict(std::move(said))};
}

TEST(PipelineLayers, AreReadAsTheyWereWritten) {
  EXPECT_EQ(Read(PipelineEntry(TwoStages())), TwoStages());
  PipelineLayers one = TwoStages();
  one.stage_count = 1;
  one.stages.clear();
  EXPECT_EQ(Read(PipelineEntry(one)), one);
}

TEST(PipelineLayers, StagesAreThoseOfTheWholePrefix) {
  const PipelineLayers pipeline = TwoStages();
  EXPECT_THAT(RememberedStages(pipeline, "1.norm.weight"), Pointee(ElementsAre(0)));
  EXPECT_THAT(RememberedStages(pipeline, "10.norm.weight"), Pointee(ElementsAre(1)));
  EXPECT_THAT(RememberedStages(pipeline, "tied_modules.embed.weight"), Pointee(ElementsAre(0, 1)));
  EXPECT_EQ(RememberedStages(pipeline, "100.norm.weight"), nullptr);
}

TEST(PipelineLayers, NoneIsNoError) {
  std::vector<Entry> entries = {{MakeText("iteration"), MakeInteger(4)}};
  EXPECT_EQ(llvm::cantFail(TakePipelineEntry(entries, "its_file.pt")), std::nullopt);
}

TEST(PipelineLayers, OfAnotherFormAreRefused) {
  auto stages = [](pytorch::ValuePtr held) { return MakeDict({{MakeText("1."), std::move(held)}}); };
  EXPECT_TRUE(Read(With("stages", stages(MakeList({MakeInteger(1)})))));
  EXPECT_FALSE(Read(With("stages", stages(MakeList({MakeInteger(2)})))));
  EXPECT_FALSE(Read(With("stages", stages(MakeList({MakeInteger(-1)})))));
  EXPECT_FALSE(Read(With("stages", stages(MakeList({})))));
  EXPECT_FALSE(Read(With("stages", stages(MakeText("0")))));
  EXPECT_FALSE(Read(With("stages", nullptr)));
  EXPECT_FALSE(Read(With("stage_count", nullptr)));
  EXPECT_FALSE(Read(With("stage_count", MakeInteger(0))));
  EXPECT_FALSE(Read(With("stage_count", MakeText("2"))));
  EXPECT_FALSE(Read(With("layers", MakeText("1."))));
  EXPECT_FALSE(Read(With("layers", MakeDict({{MakeText("1"), MakeText("1.")}}))));
  EXPECT_FALSE(Read(With("tensor_axis", nullptr)));
  EXPECT_FALSE(Read({PipelineEntry(TwoStages()).key, MakeInteger(2)}));
}

}  // namespace
}  // namespace ucp
