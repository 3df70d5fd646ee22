#include "compiler/formats/pytorch/values/value_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/compiler/formats/pytorch/samples.h"

namespace ucp::pytorch {
namespace {

using ::testing::ElementsAre;

TEST(ValueAccess, FindsKeysAndAttributes) {
  const Archive objects = SampleArchive("objects.pt");
  const ValuePtr args = Find(*objects.root(), "args");
  ASSERT_TRUE(args);
  EXPECT_EQ(ClassName(*args), "argparse.Namespace");
  EXPECT_EQ(AsInteger(*Find(*args, "num_layers")), 2);
  EXPECT_EQ(AsDType(*Find(*args, "params_dtype")), DType::kFloat16);
  EXPECT_EQ(AsDouble(*Find(*args, "lr")), 1e-4);
  EXPECT_TRUE(Find(*args, "name")->is_none());
  EXPECT_EQ(Find(*args, "missing"), nullptr);
  EXPECT_EQ(AsText(*Find(*objects.root(), 1)), "integer key");
  EXPECT_EQ(AsBytes(*Find(*objects.root(), "bytes")), std::string_view("ab\0\xff", 4));
  EXPECT_THAT(*AsIntegers(*Find(*objects.root(), "size")), ElementsAre(3, 4));
  EXPECT_THAT(*AsIntegers(*Find(*objects.root(), "set")), ElementsAre(3));
  EXPECT_EQ(AsIntegers(*Find(*objects.root(), "doubles")), std::nullopt);
  EXPECT_EQ(AsInteger(*Items(*Find(*objects.root(), "truths"))->front()), std::nullopt);
}

TEST(ValueAccess, AnOrderedDictHasEntriesAndAttributes) {
  const Archive archive = SampleArchive("parameters.pt");
  EXPECT_TRUE(IsOrderedDict(*archive.root()));
  EXPECT_EQ(Entries(*archive.root())->size(), 4u);
  EXPECT_EQ(Attributes(*archive.root())->size(), 1u);
  EXPECT_EQ(Find(*archive.root(), "_metadata"), nullptr);
  EXPECT_TRUE(Find(*archive.root(), "weight")->As<Tensor>()->is_parameter);
}

TEST(ValueAccess, UnderstandsBothFormsOfAnEnum) {
  const Archive archive = SampleArchive("deepspeed.pt");
  const auto number = AsEnumMember(*Find(*archive.root(), "stage by number"));
  const auto name = AsEnumMember(*Find(*archive.root(), "stage by name"));
  ASSERT_TRUE(number && name);
  EXPECT_EQ(number->class_name, "deepspeed.runtime.zero.config.ZeroStageEnum");
  EXPECT_EQ(name->class_name, "deepspeed.runtime.zero.config.ZeroStageEnum");
  EXPECT_EQ(std::get<std::int64_t>(number->member), 2);
  EXPECT_EQ(std::get<std::string>(name->member), "gradients");
  EXPECT_EQ(AsEnumMember(*MakeInteger(2)), std::nullopt);
}

TEST(ValueAccess, ReplacesEachTensorOnceAndKeepsTheRest) {
  const ValuePtr tensor = MakeWholeTensor("7", DType::kFloat32, {2});
  const ValuePtr plain = MakeList({MakeInteger(1)});
  const ValuePtr holder = MakeList({tensor});
  int calls = 0;
  const ValuePtr replaced = ReplaceTensors(MakeDict({{MakeText("a"), MakeTuple({tensor, holder})},
                                                     {MakeText("b"), MakeOrderedDict({{MakeText("c"), tensor}})},
                                                     {MakeText("d"), plain},
                                                     {MakeText("e"), holder}}),
                                           [&](const ValuePtr& old) {
                                             EXPECT_EQ(old, tensor);
                                             ++calls;
                                             return MakeText("gone");
                                           });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(Find(*replaced, "d"), plain);
  EXPECT_EQ(Print(*replaced),
            "{'a': ('gone', &1 ['gone']), 'b': collections.OrderedDict(){'c': 'gone'}, 'd': [1], 'e': *1}");
}

}  // namespace
}  // namespace ucp::pytorch
