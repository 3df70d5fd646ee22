#include "compiler/formats/deepspeed/universal/cut_rules.h"

#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::universal {
namespace {

ShapeExpr L(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Cut(ShapeExpr inner) { return ShapeExpr::Cut(std::move(inner), {"tp"}); }
ShapeExpr Times(std::vector<ShapeExpr> factors) { return ShapeExpr::Product(std::move(factors)); }
ShapeExpr Plus(std::vector<ShapeExpr> terms) { return ShapeExpr::Sum(std::move(terms)); }

// The entries beside `param`, printed.
std::string Entries(std::vector<ShapeExpr> dims) {
  LogicalTensor tensor;
  tensor.name = "w";
  for (const ShapeExpr& dim : dims) tensor.shape.push_back(*LogicalLength(dim));
  tensor.dims = std::move(dims);
  return pytorch::Print(*pytorch::MakeDict(CutEntries(tensor)));
}

TEST(CutRules, NothingIsCut) {
  EXPECT_EQ(Entries({L(4), L(6)}), "{}");
  EXPECT_EQ(Entries({}), "{}");
}

TEST(CutRules, RowsAndColumns) {
  EXPECT_EQ(Entries({Cut(L(4)), L(6)}), "{'cat_dim': 0}");
  EXPECT_EQ(Entries({L(4), Cut(L(6))}), "{'cat_dim': 1}");
  EXPECT_EQ(Entries({Cut(L(4))}), "{'cat_dim': 0}");
  // Whole heads, each with its query, key and value: one run.
  EXPECT_EQ(Entries({Times({Cut(L(8)), L(3), L(16)}), L(6)}), "{'cat_dim': 0}");
  EXPECT_EQ(Entries({Times({Cut(L(8)), Plus({L(2), L(1), L(1)})}), L(6)}), "{'cat_dim': 0}");
  EXPECT_EQ(Entries({Cut(Times({L(2), L(8)})), L(6)}), "{'cat_dim': 0}");
}

TEST(CutRules, EqualParts) {
  EXPECT_EQ(Entries({Times({L(2), Cut(L(8))}), L(6)}), "{'cat_dim': 0, 'param_n_sub_params': 2}");
  EXPECT_EQ(Entries({L(6), Times({L(3), Cut(L(8)), L(5)})}), "{'cat_dim': 1, 'param_n_sub_params': 3}");
  EXPECT_EQ(Entries({Plus({Cut(L(8)), Cut(L(8))}), L(6)}), "{'cat_dim': 0, 'param_n_sub_params': 2}");
  EXPECT_EQ(Entries({Times({L(2), Plus({Cut(L(8)), Cut(L(8))})})}), "{'cat_dim': 0, 'param_n_sub_params': 4}");
}

TEST(CutRules, VocabularyIsPaddedByTheLoader) {
  EXPECT_EQ(Entries({Cut(ShapeExpr::Pad(L(101), 32)), L(6)}), "{'cat_dim': 0, 'vocab_tensor': True}");
  EXPECT_EQ(Entries({Cut(ShapeExpr::Pad(L(101), 32))}), "{'cat_dim': 0}");  // The loader pads matrices only.
  EXPECT_EQ(Entries({ShapeExpr::Pad(L(101), 32), L(6)}), "{}");
}

TEST(CutRules, UnequalPartsNeedTheLoadersClass) {
  LogicalTensor tensor;
  tensor.name = "qkv";
  tensor.shape = {16, 6};
  tensor.dims = {Plus({Times({Cut(L(4)), L(2)}), Times({Cut(L(2)), L(2)}), Times({Cut(L(2)), L(2)})}), L(6)};
  EXPECT_EQ(CutRuleOf(tensor), (CutRule{0, {8, 4, 4}, false}));
  std::vector<pytorch::Entry> entries = CutEntries(tensor);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(pytorch::AsText(*entries[0].key), "sub_param_shape");
  const pytorch::Value& shape = *entries[0].value;
  EXPECT_EQ(pytorch::ClassName(shape), "deepspeed.checkpoint.universal_checkpoint.SubparamShape");
  EXPECT_EQ(pytorch::Print(*pytorch::Find(shape, "shape")), "((8, 4, 4), 6)");
  EXPECT_EQ(pytorch::Print(*pytorch::Find(shape, "patterns")), "['qkv']");
  EXPECT_EQ(pytorch::AsInteger(*pytorch::Find(shape, "partition_dim")), 0);
}

TEST(CutRules, WhatTheLoaderHasNoWordsForIsLeftOut) {
  EXPECT_EQ(Entries({Plus({Cut(L(8)), L(4)}), L(6)}), "{}");       // A part that is not cut.
  EXPECT_EQ(Entries({Cut(L(8)), Cut(L(6))}), "{}");                // Two dimensions.
  EXPECT_EQ(Entries({ShapeExpr::Cut(L(8), {"ep"}), L(6)}), "{}");  // Another axis.
  EXPECT_EQ(Entries({ShapeExpr::Cut(L(8), {"tp", "dp"}), L(6)}), "{}");
}

}  // namespace
}  // namespace ucp::universal
