#include "compiler/formats/safetensors/write.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "compiler/formats/safetensors/write_options.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::safetensors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LogicalTensor Trained(const std::string& name, std::vector<std::int64_t> shape) {
  return {
      name, TensorKind::kParameter, std::move(shape), {{"exp_avg", DType::kFloat32}, {"fp32", DType::kFloat32}}, {}};
}

LogicalTensor Buffered(const std::string& name, DType dtype) {
  return {name, TensorKind::kBuffer, {2}, {{"weight", dtype}}, {}};
}

class SafetensorsWrite : public ::testing::Test {
 protected:
  llvm::Expected<TargetFiles> LayOut(const std::string& strategy) {
    auto parsed = ParseStrategy(strategy);
    if (!parsed) return parsed.takeError();
    training_.ranks.resize(1);
    return LayOutFolder({tensors_, layout_, training_, layout_.mesh, *parsed});
  }

  // "a float32 in model.safetensors", one for each tensor and state.
  std::vector<std::string> Written(const std::string& strategy) {
    auto target = LayOut(strategy);
    if (!target) return {TakeFailure(target.takeError()).message};
    std::vector<std::string> lines;
    const Storage& storage = target->storage;
    for (const Shard& shard : storage.shards) {
      for (const StateBuffer& entry : storage.buffer_set(shard.states)) {
        const Buffer& buffer = storage.buffer(entry.buffer);
        std::string state = entry.state == kWeightState ? "" : "." + entry.state;
        lines.push_back(fmt::format("{}{} {} in {}", shard.tensor, state, Name(buffer.dtype),
                                    storage.file(buffer.parts.front().record).path));
      }
    }
    remarks_ = target->remarks;
    return lines;
  }

  std::string Refusal(const std::string& strategy) {
    auto target = LayOut(strategy);
    return target ? "accepted" : TakeFailure(target.takeError()).message;
  }

  std::vector<LogicalTensor> tensors_;
  Layout layout_;
  TrainingState training_;
  std::vector<std::string> remarks_;
};

TEST_F(SafetensorsWrite, WeightsAreOfTheModelsOwnType) {
  tensors_ = {Trained("a", {4}), Trained("b", {4}), Buffered("c", DType::kInt64), Buffered("d", DType::kFloat32)};
  tensors_[0].weight = DType::kFloat16;
  tensors_[1].weight = DType::kBFloat16;
  EXPECT_THAT(Written("safetensors"), ElementsAre("a float16 in model.safetensors", "b bfloat16 in model.safetensors",
                                                  "c int64 in model.safetensors", "d float32 in model.safetensors"));
  EXPECT_THAT(Written("safetensors:dtype=fp32"),
              ElementsAre("a float32 in model.safetensors", "b float32 in model.safetensors",
                          "c int64 in model.safetensors", "d float32 in model.safetensors"));
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("masters and optimizer states are left out")));
}

TEST_F(SafetensorsWrite, WhereNobodySaysATypeItIsTheMasters) {
  tensors_ = {Trained("a", {4})};
  EXPECT_THAT(Written("safetensors"), ElementsAre("a float32 in model.safetensors"));
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("no weights in another dtype than that in which they are trained"),
                                    HasSubstr("left out")));
  EXPECT_THAT(Written("safetensors:dtype=bf16"), ElementsAre("a bfloat16 in model.safetensors"));
}

TEST_F(SafetensorsWrite, AllStates) {
  tensors_ = {Trained("a", {4}), Buffered("c", DType::kInt64)};
  EXPECT_THAT(Written("safetensors:states=all,dtype=bf16"),
              ElementsAre("a bfloat16 in model.safetensors", "a.exp_avg float32 in optimizer.safetensors",
                          "a.fp32 float32 in optimizer.safetensors", "c int64 in model.safetensors"));
  EXPECT_FALSE(LayOut("safetensors:states=all")->weights_only);
  EXPECT_TRUE(LayOut("safetensors")->weights_only);
}

TEST_F(SafetensorsWrite, AFileIsFullBeforeTheNextBegins) {
  tensors_ = {Trained("a", {100}), Trained("b", {1}), Trained("c", {24}), Trained("d", {25}), Trained("e", {1})};
  EXPECT_THAT(
      Written("safetensors:max_shard=100"),
      ElementsAre("a float32 in model-00001-of-00004.safetensors", "b float32 in model-00002-of-00004.safetensors",
                  "c float32 in model-00002-of-00004.safetensors", "d float32 in model-00003-of-00004.safetensors",
                  "e float32 in model-00004-of-00004.safetensors"));
  auto target = LayOut("safetensors:max_shard=100");
  const auto& files = target->storage.files;
  EXPECT_TRUE(std::any_of(files.begin(), files.end(),
                          [](const StoredFile& file) { return file.path == "model.safetensors.index.json"; }));
}

TEST_F(SafetensorsWrite, NothingToWriteIsAnEmptyFile) {
  auto target = LayOut("safetensors");
  ASSERT_EQ(target->storage.files.size(), 1U);
  EXPECT_EQ(target->storage.files[0].path, "model.safetensors");
}

TEST_F(SafetensorsWrite, NamesInMemoryAreRefusedUnlessWanted) {
  for (const char* name : {"model.layers.0.mlp.experts.gate_up_proj", "model.layers.1.mixer.experts.down_proj",
                           "model.language_model.norm.weight", "model.layers.3.mixer.A_log"}) {
    tensors_ = {Trained("a", {4}), Trained(name, {4})};
    EXPECT_THAT(Refusal("safetensors"), HasSubstr(fmt::format("tensor `{}` has the name that transformers", name)));
    EXPECT_EQ(Refusal("safetensors:names=memory"), "accepted");
  }
  tensors_ = {Trained("gpt_neox.embed_in.weight", {4}), Trained("lm_head.weight", {4})};
  EXPECT_THAT(Refusal("safetensors"), HasSubstr("`lm_head.weight` has the name that transformers gives it in memory, "
                                                "where a hub folder has `embed_out.weight`"));
  tensors_ = {Trained("lm_head.weight", {4}), Trained("model.layers.0.mlp.experts.3.down_proj.weight", {4}),
              Trained("backbone.layers.0.mixer.A_log", {4})};
  EXPECT_EQ(Refusal("safetensors"), "accepted");
}

TEST_F(SafetensorsWrite, WhatCannotBeWrittenIsSaid) {
  tensors_ = {Buffered("c", DType::kComplex128)};
  EXPECT_EQ(Refusal("safetensors"), "`c` is complex128, which safetensors files do not hold");
  tensors_ = {Buffered("\xFF", DType::kInt64)};
  EXPECT_THAT(Refusal("safetensors"), HasSubstr("cannot stand in a safetensors file"));
  tensors_ = {Buffered("__metadata__", DType::kInt64)};
  EXPECT_THAT(Refusal("safetensors"), HasSubstr("cannot stand in a safetensors file"));
  tensors_ = {Trained("a", {4})};
  tensors_[0].states = {{"exp_avg", DType::kFloat32}};
  EXPECT_EQ(Refusal("safetensors"), "tensor `a` has neither a weight nor a master");
  tensors_[0].states = {{"exp.avg", DType::kFloat32}, {"fp32", DType::kFloat32}};
  EXPECT_THAT(Refusal("safetensors:states=all"), HasSubstr("state `exp.avg` cannot stand in a safetensors file"));
  tensors_ = {Trained("a", {std::int64_t{1} << 40, std::int64_t{1} << 40})};
  EXPECT_EQ(Refusal("safetensors"), "`a` has more than 2^63 bytes");
}

TEST_F(SafetensorsWrite, SettingsAreChecked) {
  for (const char* wrong : {"dtype=int8", "max_shard=0", "max_shard=many", "states=some", "names=x", "dtpe=bf16"}) {
    const std::string key = std::string(wrong).substr(0, std::string(wrong).find('='));
    EXPECT_THAT(Refusal(fmt::format("safetensors:{}", wrong)), HasSubstr(fmt::format("`{}", key))) << wrong;
  }
  EXPECT_THAT(Refusal("safetensors:max_shard=0"), HasSubstr("a size such as 5GB or 500MB"));
}

}  // namespace
}  // namespace ucp::safetensors
