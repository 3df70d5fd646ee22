#include "compiler/infer/embedded_cuts.h"

#include <gmock/gmock.h>

#include "compiler/support/error.h"
#include "tests/unit/compiler/infer/headers.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One line for each tensor, and one for those that nothing describes.
std::vector<std::string> Cuts(const Headers& headers) {
  auto cuts = ReadEmbeddedCuts(headers.get());
  if (!cuts) return {"error: " + llvm::toString(cuts.takeError())};
  std::vector<std::string> lines;
  for (const TensorLayout& tensor : cuts->layout.tensors) lines.push_back(ToString(tensor));
  for (const std::string& name : cuts->undescribed) lines.push_back("undescribed " + name);
  return lines;
}

SubParameters Parts(std::vector<std::int64_t> sizes, std::int64_t equal_parts) {
  SubParameters parts;
  parts.pattern = "^qkv$";
  parts.sizes = std::move(sizes);
  parts.equal_parts = equal_parts;
  return parts;
}

TEST(EmbeddedCuts, DescribeWhatAPatternNamesAndNothingElse) {
  EmbeddedLayout layout;
  layout.version = 0.4;
  layout.replicated = {"norm"};
  layout.averaged = {"drift"};
  layout.row_parallel = {"down"};
  layout.two_parts = {"gate_up"};
  Headers headers(2);
  for (const char* name : {"norm", "drift", "down", "gate_up", "query"}) headers.Add(name, {{16, 8}, {16, 8}});
  EXPECT_THAT(Cuts(headers.Add("scalar", {{}, {}}).Embed(layout)),
              ElementsAre("down [16, 16@tp]", "drift [16, 8] mean@tp", "gate_up [2 * (16@tp), 8]", "norm [16, 8]",
                          "scalar []", "undescribed query"));
}

TEST(EmbeddedCuts, PaddingOfTheVocabularyIsNotPartOfIt) {
  EmbeddedLayout layout;
  layout.vocabulary = {"embed"};
  layout.original_vocabulary = 101;
  EXPECT_THAT(Cuts(Headers(2).Add("embed", {{56, 16}, {56, 16}}).Embed(layout)),
              ElementsAre("embed [pad(101, 16)@tp, 16]"));
  layout.original_vocabulary = 112;
  EXPECT_THAT(Cuts(Headers(2).Add("embed", {{56, 16}, {56, 16}}).Embed(layout)), ElementsAre("embed [112@tp, 16]"));
}

// Before version 0.4 a number of equal parts, or sizes that divide; from then on widths.
TEST(EmbeddedCuts, PartsOfOldVersionsAreCutEvenly) {
  EmbeddedLayout layout;
  layout.version = 0.2;
  layout.sub_parameters = {Parts({}, 3)};
  Headers headers(2);
  headers.Add("qkv", {{12, 4}, {12, 4}});
  EXPECT_THAT(Cuts(headers.Embed(layout)), ElementsAre("qkv [3 * (8@tp), 4]"));
  layout.version = 0.3;
  layout.sub_parameters = {Parts({16, 4, 4}, 0)};
  EXPECT_THAT(Cuts(headers.Embed(layout)), ElementsAre("qkv [16@tp + 4@tp + 4@tp, 4]"));
  layout.sub_parameters = {Parts({14, 5, 5}, 0)};
  EXPECT_THAT(Cuts(headers.Embed(layout)), ElementsAre(HasSubstr("error: the metadata for `^qkv$` has a part of 5")));
  layout.version = 0.4;
  layout.sub_parameters = {Parts({16, 4, 4}, 0)};
  EXPECT_THAT(Cuts(headers.Embed(layout)), ElementsAre(HasSubstr("has no entry in `sub_param_shard_widths`")));
}

TEST(EmbeddedCuts, OfTwoPartsThatMatchTheFirstCounts) {
  EmbeddedLayout layout;
  SubParameters first = Parts({}, 2);
  SubParameters second = Parts({}, 3);
  second.pattern = "qk";
  layout.sub_parameters = {first, second};
  EXPECT_THAT(Cuts(Headers(2).Add("qkv", {{12, 4}, {12, 4}}).Embed(layout)), ElementsAre("qkv [2 * (12@tp), 4]"));
}

TEST(EmbeddedCuts, WhatItCannotDescribeItMayGiveAReasonFor) {
  EmbeddedLayout layout;
  layout.unsupported = {{"^fused$", "its heads are interleaved"}};
  EXPECT_THAT(Cuts(Headers(2).Add("fused", {{4}, {4}}).Embed(layout)),
              ElementsAre(HasSubstr("says of `fused` that it cannot be described: its heads are interleaved")));
}

// AutoTP lists every parameter and cuts no buffer.
TEST(EmbeddedCuts, ABufferBesideMapsIsWhole) {
  EmbeddedLayout layout;
  AffineMap map;
  map.logical_shape = {4};
  for (std::int64_t rank : {0, 1}) map.ranks[rank] = {{4}, {{{4}, {0, {1}}, {0, {1}}, {0, 1}, 1.0}}};
  layout.maps = {{"^bias$", map}};
  Headers headers(2);
  headers.Add("bias", {{4}, {4}}).AddBuffer("table", {{7}, {7}}).AddBuffer("torn", {{7}, {6}});
  EXPECT_THAT(Cuts(headers.Embed(layout)), ElementsAre("bias [4]", "table [7] buffer", "undescribed torn"));
  EXPECT_THAT(Cuts(Headers(2).AddBuffer("table", {{7}, {7}}).Embed({})), ElementsAre("undescribed table"));
}

}  // namespace
}  // namespace ucp
