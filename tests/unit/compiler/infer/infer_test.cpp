#include "compiler/infer/infer.h"

#include <gmock/gmock.h>

#include "compiler/support/error.h"
#include "tests/unit/compiler/infer/headers.h"

namespace ucp {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Draft(const Headers& headers, const Headers* elsewhere = nullptr) {
  auto draft = InferSpec(headers.get(), elsewhere == nullptr ? nullptr : &elsewhere->get());
  if (!draft) return "error: " + llvm::toString(draft.takeError());
  return draft->text.substr(draft->text.find("layout drafted"));
}

TEST(Infer, AtOneDegreeEqualShapesAreAQuestion) {
  std::string text = Draft(Headers(2).Add("up.weight", {{24, 16}, {24, 16}}));
  EXPECT_EQ(text,
            "layout drafted {\n"
            "  // question: it is [24, 16] on each of 2 ranks, and nothing says whether these are copies or parts\n"
            "  // \"up.weight\" [24, 16]\n"
            "  // \"up.weight\" [48@tp, 16]\n"
            "  // \"up.weight\" [24, 32@tp]\n"
            "}\n");
}

TEST(Infer, TwoDegreesDecideTheDimension) {
  Headers two(2);
  Headers four(4);
  two.Add("up", {{24, 16}, {24, 16}}).Add("down", {{16, 24}, {16, 24}}).Add("norm", {{16}, {16}});
  four.Add("up", {{12, 16}, {12, 16}, {12, 16}, {12, 16}}).Add("norm", {{16}, {16}, {16}, {16}});
  four.Add("down", {{16, 12}, {16, 12}, {16, 12}, {16, 12}});
  EXPECT_EQ(
      Draft(two, &four),
      "layout drafted {\n"
      "  // question: dimension 1 is cut, as the shapes at tp=2 and tp=4 show; in one piece, as here, or part by "
      "part (query,\n"
      "  // key and value; gate and up)\n"
      "  // are the 48 places units, such as heads, that no rank may have a part of? Then write `units@tp * size`\n"
      "  \"down\" [16, 48@tp]\n"
      "  \"norm\" [16]\n"
      "  // question: dimension 0 is cut, as the shapes at tp=2 and tp=4 show; in one piece, as here, or part by "
      "part (query,\n"
      "  // key and value; gate and up)\n"
      "  // are the 48 places units, such as heads, that no rank may have a part of? Then write `units@tp * size`\n"
      "  \"up\" [48@tp, 16]\n"
      "}\n");
}

// One rank shows no cut. The usual names of linear layers propose one; their norms and routers are whole.
TEST(Infer, UsualNamesProposeCutsWhereNothingIsCut) {
  Headers headers(1);
  headers.Fact("config.num_attention_heads", {4}).Fact("config.num_key_value_heads", {2});
  headers.Fact("config.hidden_size", {16}).Fact("config.intermediate_size", {40});
  headers.Add("h.attn.q_proj.weight", {{16, 16}}).Add("h.attn.q_proj.bias", {{16}});
  headers.Add("h.attn.k_proj.weight", {{8, 16}}).Add("h.attn.o_proj.bias", {{16}});
  headers.Add("h.mlp.down_proj.weight", {{16, 40}}).Add("h.mlp.gate.weight", {{7, 16}});
  headers.Add("h.q_proj.norm.weight", {{16}}).Add("h.mlp.experts.up_proj", {{7, 16, 40}});
  const std::string text = Draft(headers);
  EXPECT_THAT(text, HasSubstr("  // question: its name alone says that tp cuts it so: does it\n"
                              "  \"h.attn.k_proj.weight\" [kv_heads@tp * 4, hidden]\n"));
  EXPECT_THAT(text, HasSubstr("\"h.attn.q_proj.weight\" [heads@tp * 4, hidden]"));
  EXPECT_THAT(text, HasSubstr("\"h.attn.q_proj.bias\" [heads@tp * 4]"));
  EXPECT_THAT(text, HasSubstr("\"h.attn.o_proj.bias\" [hidden]"));
  EXPECT_THAT(text, HasSubstr("\"h.mlp.down_proj.weight\" [hidden, ffn@tp]"));
  EXPECT_THAT(text, HasSubstr("\"h.mlp.gate.weight\" [7, hidden]"));
  EXPECT_THAT(text, HasSubstr("\"h.q_proj.norm.weight\" [hidden]"));
  EXPECT_THAT(text, HasSubstr("\"h.mlp.experts.up_proj\" [7, hidden, ffn]"));
}

TEST(Infer, AConfigurationSaysThatTheHeadIsTied) {
  const auto draft = [](bool tied, bool has_head) {
    Headers headers(1);
    headers.Fact("config.tie_word_embeddings", {tied}).Add("model.embed_tokens.weight", {{32, 16}});
    if (has_head) headers.Add("lm_head.weight", {{32, 16}});
    return Draft(headers);
  };
  EXPECT_THAT(draft(true, false), HasSubstr("  tie \"lm_head.weight\" = \"model.embed_tokens.weight\"\n"));
  EXPECT_THAT(draft(false, false), Not(HasSubstr("tie")));
  EXPECT_THAT(draft(true, true), Not(HasSubstr("tie")));
}

TEST(Infer, PaddingThatDependsOnTheDegreeIsAQuestion) {
  Headers one(1);
  Headers two(2);
  one.Add("embed", {{104, 16}});
  two.Add("embed", {{56, 16}, {56, 16}});
  std::string text = Draft(one, &two);
  EXPECT_THAT(text, HasSubstr("question: dimension 0 of `embed` has 104 places at tp=1 and 112 at tp=2"));
  EXPECT_THAT(text, HasSubstr("// \"embed\" [104, 16]"));
}

TEST(Infer, TwoModelsAreNoPair) {
  Headers one(1);
  Headers two(2);
  one.Add("a", {{4}});
  two.Add("b", {{4}, {4}});
  EXPECT_THAT(Draft(one, &two), HasSubstr("these are two models"));
}

TEST(Infer, RepeatedNamesBecomeBlocksAndConditions) {
  Headers headers(1);
  for (int i = 0; i < 6; ++i) {
    std::string layer = "model.layers." + std::to_string(i);
    headers.Add(layer + ".norm.weight", {{16}}).Add(layer + ".norm.bias", {{16}});
    if (i < 2) headers.Add(layer + ".mlp.up.weight", {{48, 16}});
    for (int e = 0; i >= 2 && e < 3; ++e) {
      headers.Add(layer + ".mlp.experts." + std::to_string(e) + ".up.weight", {{8, 16}});
    }
    if (i % 2 == 1) headers.Add(layer + ".window", {{4}});
  }
  headers.Fact("config.num_hidden_layers", {6}).Fact("config.hidden_size", {16});
  EXPECT_EQ(Draft(headers),
            "layout drafted {\n"
            "  block \"model.layers.{i: layers}\" {\n"
            "    \"norm.{bias|weight}\" [hidden]\n"
            "    when i < 2 {\n"
            "      \"mlp.up.weight\" [48, hidden]\n"
            "    }\n"
            "    when i % 2 == 1 {\n"
            "      \"window\" [4]\n"
            "    }\n"
            "    when i >= 2 {\n"
            "      block \"mlp.experts.{e: 3}\" {\n"
            "        \"up.weight\" [8, hidden]\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n");
}

TEST(Infer, StagesFollowTheHeaders) {
  Headers headers(1, 2);
  headers.Add("0.embed", {{101, 16}}, 0);
  for (int i = 1; i <= 4; ++i) headers.Add(std::to_string(i) + ".up", {{48, 16}}, i <= 2 ? 0 : 1);
  headers.Add("5.head", {{101, 16}}, 1).Add("tied", {{8}}, 0).Add("tied", {{8}}, 1);
  EXPECT_EQ(Draft(headers),
            "layout drafted {\n"
            "  \"tied\" [8]\n"
            "  \"0.embed\" [101, 16] at pp.first\n"
            "  block \"{i + 1: 4@pp}\" {\n"
            "    \"up\" [48, 16]\n"
            "  }\n"
            "  \"5.head\" [101, 16] at pp.last\n"
            "}\n");
}

// DeepSpeed's own order: replicated before averaged before two parts before sub-parameters before row parallel.
TEST(Infer, EmbeddedPatternsKeepTheirPrecedence) {
  EmbeddedLayout layout;
  layout.version = 0.4;
  layout.replicated = {"norm"};
  layout.averaged = {"drift"};
  layout.two_parts = {".*gate_up"};
  layout.row_parallel = {".*"};
  SubParameters qkv;
  qkv.pattern = "^qkv$";
  qkv.widths = {{8, 8}, {4, 4}, {4, 4}};
  layout.sub_parameters = {qkv};
  Headers headers(2);
  for (const char* name : {"norm", "drift", "gate_up", "down"}) headers.Add(name, {{16, 8}, {16, 8}});
  headers.Add("qkv", {{16, 8}, {16, 8}}).Embed(layout);
  EXPECT_EQ(Draft(headers),
            "layout drafted {\n"
            "  // question: are the 16 places units, such as heads, that no rank may have a part of? Then write "
            "`units@tp * size`\n"
            "  \"down\" [16, 16@tp]\n"
            "  \"drift\" [16, 8] mean@tp\n"
            "  // question: are the 16 places units, such as heads, that no rank may have a part of? Then write "
            "`units@tp * size`\n"
            "  \"gate_up\" [2 * (16@tp), 8]\n"
            "  \"norm\" [16, 8]\n"
            "  // question: are the 8 places units, such as heads, that no rank may have a part of? Then write "
            "`units@tp * size`\n"
            "  \"qkv\" [16@tp + 8@tp + 8@tp, 8]\n"
            "}\n");
}

// 32 places at TP 2 are two heads of 16, which TP 4 would cut in halves: `32@tp` is wrong there, and no header shows
// it.
TEST(Infer, ConfigurationsSayTheUnitsOfACut) {
  EmbeddedLayout layout;
  layout.version = 0.4;
  layout.row_parallel = {"o_proj|down"};
  layout.vocabulary = {"k_proj|up"};
  Headers headers(2);
  headers.Add("k_proj", {{16, 64}, {16, 64}}).Add("o_proj", {{64, 32}, {64, 32}}).Add("up", {{88, 64}, {88, 64}});
  headers.Embed(layout);
  EXPECT_THAT(Draft(headers), HasSubstr("// question: are the 32 places units"));
  headers.Fact("config.hidden_size", {64}).Fact("config.num_attention_heads", {4});
  headers.Fact("config.num_key_value_heads", {2}).Fact("config.intermediate_size", {176});
  EXPECT_EQ(Draft(headers),
            "layout drafted {\n"
            "  \"k_proj\" [kv_heads@tp * 16, hidden]\n"
            "  // question: the 64 places are `heads@tp * 16`, which is written here, or `hidden@tp`\n"
            "  \"o_proj\" [hidden, heads@tp * 16]\n"
            "  \"up\" [ffn@tp, hidden]\n"
            "}\n");
  headers.Fact("config.head_dim", {32});  // Not hidden / heads.
  EXPECT_THAT(Draft(headers), HasSubstr("\"k_proj\" [32@tp, hidden]"));
}

TEST(Infer, WhatNoPatternNamesIsAskedAndNotConcatenatedSilently) {
  Headers headers(2);
  headers.Add("up", {{24, 16}, {24, 16}}).Embed({});
  std::string text = Draft(headers);
  EXPECT_THAT(text, HasSubstr("// question: no pattern of the checkpoint's metadata names it"));
  EXPECT_THAT(text, HasSubstr("\n  \"up\" [48@tp, 16]\n"));
}

TEST(Infer, TwoDegreesAnswerWhatNoPatternNames) {
  Headers two(2);
  Headers four(4);
  two.Add("down", {{16, 24}, {16, 24}}).Embed({});
  four.Add("down", {{16, 12}, {16, 12}, {16, 12}, {16, 12}});
  std::string text = Draft(two, &four);
  EXPECT_THAT(text, HasSubstr("question: dimension 1 is cut"));  // The dimension; not in how many pieces.
  EXPECT_THAT(text, HasSubstr("\n  \"down\" [16, 48@tp]\n"));
}

TEST(Infer, PatternsMatchAtTheStartOnly) {
  EmbeddedLayout layout;
  layout.row_parallel = {"up"};
  Headers headers(2);
  headers.Add("a.up", {{24, 16}, {24, 16}}).Add("up.weight", {{24, 16}, {24, 16}}).Embed(layout);
  std::string text = Draft(headers);
  EXPECT_THAT(text, HasSubstr("\"a.up\" [48@tp, 16]"));
  EXPECT_THAT(text, HasSubstr("\"up.weight\" [24, 32@tp]"));
}

TEST(Infer, TwoPatternsOfOneKindAreRefused) {
  EmbeddedLayout layout;
  layout.row_parallel = {"up", "^up$"};
  EXPECT_THAT(Draft(Headers(2).Add("up", {{4, 4}, {4, 4}}).Embed(layout)),
              HasSubstr("the patterns `^up$` and `up` of the checkpoint's metadata both match `up`"));
}

TEST(Infer, APatternThatRe2DoesNotKnowIsNamed) {
  EmbeddedLayout layout;
  layout.row_parallel = {"up(?=x)"};
  EXPECT_THAT(Draft(Headers(2).Add("up", {{4, 4}, {4, 4}}).Embed(layout)), HasSubstr("`up(?=x)`"));
}

TEST(Infer, AMapOutranksPatterns) {
  EmbeddedLayout layout;
  layout.replicated = {"qkv"};
  AffineMap map;
  map.logical_shape = {6, 2};
  // Rank 0: rows 0..2 and 4..5; rank 1: rows 2..4 and 5..6.
  map.ranks[0] = {{3, 2}, {{{2, 2}, {0, {2, 1}}, {0, {2, 1}}, {0}, 1.0}, {{1, 2}, {8, {2, 1}}, {4, {2, 1}}, {0}, 1.0}}};
  map.ranks[1] = {{3, 2},
                  {{{2, 2}, {4, {2, 1}}, {0, {2, 1}}, {1}, 1.0}, {{1, 2}, {10, {2, 1}}, {4, {2, 1}}, {1}, 1.0}}};
  layout.maps = {{"^qkv$", map}};
  EXPECT_THAT(Draft(Headers(2).Add("qkv", {{3, 2}, {3, 2}}).Embed(layout)), HasSubstr("\"qkv\" [4@tp + 2@tp, 2]"));

  map.ranks[0].pieces.pop_back();
  layout.maps = {{"^qkv$", map}};
  EXPECT_THAT(Draft(Headers(2).Add("qkv", {{3, 2}, {3, 2}}).Embed(layout)),
              HasSubstr("error: the affine map of `qkv`"));
}

// Three ranks, two heads: AutoTP leaves the last without rows, with a piece of none or without any.
TEST(Infer, ARankMayHoldNothing) {
  EmbeddedLayout layout;
  AffineMap map;
  map.logical_shape = {4, 2};
  map.ranks[0] = {{2, 2}, {{{2, 2}, {0, {2, 1}}, {0, {2, 1}}, {0}, 1.0}}};
  map.ranks[1] = {{2, 2}, {{{2, 2}, {4, {2, 1}}, {0, {2, 1}}, {1}, 1.0}}};
  map.ranks[2] = {{0, 2}, {}};
  Headers headers(3);
  headers.Add("key", {{2, 2}, {2, 2}, {0, 2}});
  layout.maps = {{"^key$", map}};
  EXPECT_THAT(Draft(headers.Embed(layout)), HasSubstr("\"key\" [4@tp(chunk), 2]"));
  map.ranks[2].pieces = {{{0, 2}, {8, {2, 1}}, {0, {2, 1}}, {2}, 1.0}};
  layout.maps = {{"^key$", map}};
  EXPECT_THAT(Draft(headers.Embed(layout)), HasSubstr("\"key\" [4@tp(chunk), 2]"));

  map.ranks[1].pieces.clear();  // Places without an entry.
  layout.maps = {{"^key$", map}};
  EXPECT_THAT(Draft(headers.Embed(layout)), HasSubstr("gives rank 1 positions that are not a product of intervals"));
}

TEST(Infer, AScaledCopyIsWrittenAsScale) {
  EmbeddedLayout layout;
  AffineMap map;
  map.logical_shape = {4};
  for (std::int64_t rank : {0, 1}) map.ranks[rank] = {{4}, {{{4}, {0, {1}}, {0, {1}}, {0, 1}, 0.5}}};
  layout.maps = {{"^bias$", map}};
  EXPECT_THAT(Draft(Headers(2).Add("bias", {{4}, {4}}).Embed(layout)), HasSubstr("\"bias\" [4] scale(1 / tp)"));
}

TEST(Infer, ANameThatNoPatternCanSayIsRefused) {
  EXPECT_THAT(Draft(Headers(1).Add("a{b}", {{4}})), HasSubstr("no pattern of a spec can say"));
}

}  // namespace
}  // namespace ucp
