// The names are those that PyTorch 2.13, PEFT 0.21 and Lightning 2.6 give (tests/engine/test_hugging_face.py,
// test_lightning.py).
#include "compiler/layout/wrapper_names.h"

#include <gtest/gtest.h>

namespace ucp {
namespace {

using Names = std::map<std::string, std::string>;

TEST(WrapperNames, EachWrapper) {
  EXPECT_EQ(WithoutWrappers({"_orig_mod.a", "_orig_mod.b.c"}, false).plain,
            (Names{{"_orig_mod.a", "a"}, {"_orig_mod.b.c", "b.c"}}));
  EXPECT_EQ(WithoutWrappers({"layers.0._checkpoint_wrapped_module.w", "norm"}, false).plain,
            (Names{{"layers.0._checkpoint_wrapped_module.w", "layers.0.w"}}));
  EXPECT_EQ(WithoutWrappers({"_orig_mod.module.model.w", "_orig_mod.module.head"}, false).plain,
            (Names{{"_orig_mod.module.model.w", "model.w"}, {"_orig_mod.module.head", "head"}}));
  const PlainNames adapted = WithoutWrappers(
      {"base_model.model.q.base_layer.weight", "base_model.model.q.lora_A.default.weight", "base_model.model.k"},
      false);
  EXPECT_EQ(adapted.plain.at("base_model.model.q.base_layer.weight"), "q.weight");
  EXPECT_EQ(adapted.of_adapter, "q.lora_A.default.weight");
}

TEST(WrapperNames, WhatAModelCallsSoItselfStays) {
  // Only some names begin with it; only a part of a component is it; a model of its own has the attribute twice.
  EXPECT_TRUE(WithoutWrappers({"module.a", "head"}, false).plain.empty());
  EXPECT_TRUE(WithoutWrappers({"my_orig_mod.a"}, false).plain.empty());
  EXPECT_TRUE(WithoutWrappers({"module."}, false).plain.empty());
  EXPECT_TRUE(WithoutWrappers({"model.embed", "model.norm"}, false).plain.empty());
  EXPECT_EQ(WithoutWrappers({"model.model.embed", "model.model.norm"}, true).plain,
            (Names{{"model.model.embed", "model.embed"}, {"model.model.norm", "model.norm"}}));
  EXPECT_TRUE(WithoutWrappers({"layer.base_layer.weight"}, false).plain.empty());
}

TEST(WrapperNames, TwoNamesThatWouldBeOneStay) {
  const PlainNames found = WithoutWrappers({"a._orig_mod.w", "a.w"}, false);
  EXPECT_TRUE(found.plain.empty());
  EXPECT_EQ(found.clash, "`a._orig_mod.w` and `a.w` would both be `a.w`");
}

TEST(WrapperNames, AStateDictLacksActivationCheckpointingAlone) {
  EXPECT_EQ(NameInStateDict("_orig_mod.a._checkpoint_wrapped_module.b"), "_orig_mod.a.b");
  EXPECT_EQ(NameInStateDict("a.b"), "a.b");
}

}  // namespace
}  // namespace ucp
