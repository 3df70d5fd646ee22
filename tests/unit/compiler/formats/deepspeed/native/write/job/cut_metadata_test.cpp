// Every way to cut a tensor that DeepSpeed's metadata has words for, and some that it has not.
#include "compiler/formats/deepspeed/native/write/job/cut_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ShapeExpr L(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Cut(ShapeExpr inner, CutRule rule = CutRule::kEven) {
  ShapeExpr cut = ShapeExpr::Cut(std::move(inner), {"tp"});
  cut.rule = rule;
  return cut;
}

struct Model {
  Layout layout;
  std::vector<LogicalTensor> tensors;
  TrainingState training;
  WriteOptions options;
  std::vector<std::string> remarks;

  explicit Model(std::int64_t tp) {
    layout.mesh.axes = {{"pp", 1}, {"tp", tp}, {"dp", 1}};
    training.ranks.resize(1);
    options.tp = tp;
  }

  TensorLayout& Add(const std::string& name, std::vector<ShapeExpr> dims) {
    TensorLayout placed;
    placed.name = name;
    placed.dims = dims;
    tensors.push_back({name, TensorKind::kParameter, *LogicalShape(placed), {}, std::move(dims)});
    layout.tensors.push_back(std::move(placed));
    return layout.tensors.back();
  }

  // The source's own entry.
  void Says(std::vector<Entry> entries) {
    training.ranks.front().client = {{MakeText(kCutMetadata), MakeDict(std::move(entries))}};
  }

  ValuePtr Describe() {
    const Mesh source_mesh;
    const Strategy strategy;
    return DescribeCuts({tensors, layout, training, source_mesh, strategy}, options, remarks);
  }
};

std::string Said(const ValuePtr& info, const char* key) {
  ValuePtr value = pytorch::Find(*info, key);
  return value ? pytorch::Print(*value) : "nothing";
}

// The one tensor of this model is cut so.
std::string Said(std::vector<ShapeExpr> dims, const char* key) {
  Model model(2);
  model.Add("a.b", std::move(dims));
  return Said(model.Describe(), key);
}

constexpr char kAlone[] = R"(['^a\\.b$'])";

TEST(CutMetadata, ListsOfPatterns) {
  EXPECT_EQ(Said({L(4), L(6)}, "tp_replicated_parameter_patterns"), kAlone);
  EXPECT_EQ(Said({L(4), Cut(L(6))}, "parameter_with_row_parallelism_patterns"), kAlone);
  EXPECT_EQ(Said({ShapeExpr::Product({L(2), Cut(L(4))}), L(3)}, "parameter_with_2_sub_params_cat_dim_0"), kAlone);
  for (const std::vector<ShapeExpr>& dims : {std::vector{L(4)}, {L(4), Cut(L(6))}}) {
    EXPECT_EQ(Said(dims, "affine_map"), "nothing");  // It would say nothing to the loader of a universal folder.
  }
}

TEST(CutMetadata, PaddedVocabulary) {
  const std::vector<ShapeExpr> dims = {Cut(ShapeExpr::Pad(L(101), 16)), L(6)};
  EXPECT_EQ(Said(dims, "vocabulary_parameter_patterns"), kAlone);
  EXPECT_EQ(Said(dims, "original_vocab_size"), "101");
  EXPECT_EQ(Said(dims, "padded_vocab_size"), "112");
}

TEST(CutMetadata, RunsOfUnequalLengthHaveTheWidthsOfEachRank) {
  const std::vector<ShapeExpr> dims = {
      ShapeExpr::Sum({ShapeExpr::Product({Cut(L(5), CutRule::kSpread), L(2)}), Cut(L(4)), Cut(L(4))}), L(3)};
  EXPECT_EQ(Said(dims, "parameter_with_sub_params"),
            R"([{'patterns': ['^a\\.b$'], 'shape': [(10, 4, 4), 3], 'partition_dim': 0}])");
  EXPECT_EQ(Said(dims, "sub_param_shard_widths"), R"({'^a\\.b$': [[6, 4], [2, 2], [2, 2]]})");
  EXPECT_EQ(Said({L(2), L(3), Cut(L(4))}, "sub_param_shard_widths"), R"({'^a\\.b$': [[2, 2]]})");
}

TEST(CutMetadata, RowsAndWhatNoListSaysHaveAMap) {
  EXPECT_EQ(
      Said({Cut(L(4))}, "affine_map"),
      R"({'version': 1, 'params': {'^a\\.b$': {'logical_shape': [4], 'ranks': {)"
      R"(0: {'shard_shape': [2], 'pieces': [{'shape': [2], 'source': [0, [1]], 'dest': [0, [1]], 'locations': [0]}]}, )"
      R"(1: {'shard_shape': [2], 'pieces': [{'shape': [2], 'source': [2, [1]], 'dest': [0, [1]], 'locations': [1]}]})"
      "}}}}");
  ShapeExpr list = Cut(L(4), CutRule::kList);
  list.lists = {{2, 0}, {3, 1}};
  const std::vector<std::vector<ShapeExpr>> others = {
      {ShapeExpr::Sum({Cut(L(4)), L(2)}), L(3)}, {L(3), list}, {L(3), Cut(L(1), CutRule::kReplicate)}};
  for (const std::vector<ShapeExpr>& dims : others) {
    EXPECT_THAT(Said(dims, "affine_map"), HasSubstr(R"('^a\\.b$')")) << ToString(dims.back());
    EXPECT_EQ(Said(dims, "parameter_with_row_parallelism_patterns"), "[]");
    EXPECT_EQ(Said(dims, "autotp_unsupported_parameter_patterns"), "{}");
  }
}

TEST(CutMetadata, WhatNothingDescribesIsNamedWithItsReason) {
  Model model(2);
  model.Add("embed", {Cut(ShapeExpr::Pad(L(101), 16)), L(6)});
  model.Add("other", {Cut(ShapeExpr::Pad(L(99), 16)), L(6)});  // There is room for one vocabulary.
  const ValuePtr info = model.Describe();
  EXPECT_EQ(Said(info, "vocabulary_parameter_patterns"), "['^embed$']");
  EXPECT_EQ(Said(info, "autotp_unsupported_parameter_patterns"),
            "{'^other$': 'it is padded, and an affine map has no padding'}");
  EXPECT_THAT(model.remarks, ElementsAre(HasSubstr("no words for how 1 of the 2 tensors are cut, first '^other$'")));
}

TEST(CutMetadata, MeansAndScales) {
  Model model(2);
  model.Add("mean", {L(4)}).mean_axes = {"tp"};
  model.Add("scaled", {L(4)}).scale = {1, 2};
  const ValuePtr info = model.Describe();
  EXPECT_EQ(Said(info, "parameter_to_average_patterns"), "['^mean$']");
  EXPECT_EQ(Said(info, "tp_replicated_parameter_patterns"), "[]");
  EXPECT_THAT(Said(info, "affine_map"), HasSubstr("'scale': 0.5"));
}

TEST(CutMetadata, WhatIsNotTrainedHasMapsAlone) {  // DeepSpeed's converter wants every pattern of a list to match.
  Model model(2);
  model.Add("buffer", {L(4)});
  model.Add("frozen", {L(4)});
  model.tensors[0].kind = TensorKind::kBuffer;
  model.tensors[1].kind = TensorKind::kFrozen;
  const ValuePtr info = model.Describe();
  EXPECT_EQ(Said(info, "tp_replicated_parameter_patterns"), "[]");
  EXPECT_THAT(Said(info, "affine_map"), HasSubstr("'^frozen$'"));
  EXPECT_THAT(Said(info, "affine_map"), ::testing::Not(HasSubstr("'^buffer$'")));
}

TEST(CutMetadata, MapsOfAllWhereTheSourceHadThem) {
  Model model(2);
  model.Says({{MakeText("affine_map"), MakeDict({})}, {MakeText("mine"), MakeInteger(7)}});
  model.Add("embed_tokens", {Cut(L(4)), L(6)});
  model.Add("layers.0.norm", {L(6)});
  model.Add("layers.1.norm", {L(6)});
  const ValuePtr info = model.Describe();
  EXPECT_THAT(Said(info, "affine_map"), ::testing::AllOf(HasSubstr("'^embed_tokens$'"), HasSubstr("1\\\\.norm$'")));
  EXPECT_EQ(Said(info, "tp_replicated_parameter_patterns"), R"(['^layers\\.0\\.norm$', '^layers\\.1\\.norm$'])");
  EXPECT_EQ(Said(info, "vocabulary_parameter_patterns"), "['^embed_tokens$']");
  EXPECT_EQ(Said(info, "original_vocab_size"), "4");
  EXPECT_EQ(Said(info, "mine"), "7");
}

// DeepSpeed's converter tries every pattern on every name.
TEST(CutMetadata, NamesThatDifferInNumbersShareAPattern) {
  Model model(2);
  for (const char* layer : {"layers.0.", "layers.7.", "layers.10."}) {
    model.Add(std::string(layer) + "experts.3.norm", {L(6)});
    model.Add(std::string(layer) + "experts.12.norm", {L(6)});
    model.Add(std::string(layer) + "down", {L(4), Cut(L(6))});
    model.Add(std::string(layer) + "up2", {Cut(L(4)), L(6)});
  }
  model.Add("layers.0.one", {L(6)});
  model.Add("layers.0.cut", {L(4), L(6)});
  model.Add("layers.2.cut", {L(4), L(6)});
  model.Add("layers.1.cut", {L(4), Cut(L(6))});
  model.Add("layers.0.bias", {L(6)});
  model.Add("layers.2.bias", {L(6)});
  model.Add("layers.1.bias", {L(6)});
  model.tensors.back().kind = TensorKind::kFrozen;
  model.Add("layers.0.wide", {Cut(L(4)), L(6)});
  model.Add("layers.1.wide", {Cut(L(8)), L(6)});
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(model.tensors.begin(), model.tensors.end(), by_name);
  std::sort(model.layout.tensors.begin(), model.layout.tensors.end(), by_name);
  const ValuePtr info = model.Describe();
  EXPECT_EQ(Said(info, "tp_replicated_parameter_patterns"),
            R"(['^layers\\.0\\.bias$', '^layers\\.0\\.cut$', '^layers\\.0\\.one$', )"
            R"('^layers\\.2\\.bias$', '^layers\\.2\\.cut$', '^layers\\.\\d+\\.experts\\.\\d+\\.norm$'])");
  EXPECT_EQ(Said(info, "parameter_with_row_parallelism_patterns"),
            R"(['^layers\\.1\\.cut$', '^layers\\.\\d+\\.down$'])");
  const auto params = pytorch::Find(*pytorch::Find(*info, "affine_map"), "params");
  std::vector<std::string> mapped;
  for (const Entry& map : *pytorch::Entries(*params)) mapped.emplace_back(*pytorch::AsText(*map.key));
  EXPECT_THAT(mapped, ::testing::UnorderedElementsAre(R"(^layers\.\d+\.up2$)", R"(^layers\.1\.bias$)",
                                                      R"(^layers\.0\.wide$)", R"(^layers\.1\.wide$)"));
}

TEST(CutMetadata, OneRankKeepsWhatTheSourceSaid) {
  Model model(1);
  EXPECT_EQ(model.Describe(), nullptr);
  model.Add("w", {L(4)});
  model.Says({{MakeText("original_vocab_size"), MakeInteger(101)}});
  EXPECT_EQ(pytorch::Print(*model.Describe()), "{'original_vocab_size': 101}");
}

TEST(CutMetadata, OneRankIsToldWhereOthersCut) {
  Model model(1);
  model.Says({{MakeText("affine_map"), MakeDict({})}});
  model.Add("down", {L(4), L(6)});
  model.Add("up", {L(4), L(6)});
  model.tensors[0].dims = {L(4), Cut(L(6))};  // The target's layout has forgotten it.
  model.tensors[1].dims = {Cut(L(4)), L(6)};
  const ValuePtr info = model.Describe();
  EXPECT_EQ(Said(info, "parameter_with_row_parallelism_patterns"), "['^down$']");
  EXPECT_EQ(Said(info, "tp_replicated_parameter_patterns"), "[]");
  EXPECT_EQ(Said(info, "affine_map"), "nothing");
}

TEST(CutMetadata, CopiesOnOtherStages) {
  Model model(1);
  model.layout.mesh.axes[0].size = 2;
  model.options.pp = 2;
  model.Add("0.w", {L(4), Cut(L(2))}).stages = {0};
  model.Add("tied_modules.embed.weight", {L(4), L(2)}).stages = {0, 1};
  const ValuePtr info = model.Describe();
  EXPECT_EQ(Said(info, "pipeline_replicated_parameter_patterns"), R"(['^tied_modules\\.embed\\.weight$'])");
}

}  // namespace
}  // namespace ucp::deepspeed
