#include "compiler/formats/dcp/write/flatten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucp::dcp {
namespace {

using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::MakeTuple;
using pytorch::ValuePtr;
using ::testing::ElementsAre;

std::vector<std::string> KeysOf(const ValuePtr& value, TorchRelease release) {
  std::vector<FlatEntry> entries;
  Flatten({"x"}, value, release, entries);
  std::vector<std::string> keys;
  for (const FlatEntry& entry : entries) keys.push_back(KeyOf(entry.path));
  return keys;
}

// The keys are those of flatten_state_dict() and traverse_state_dict_v_2_3() of PyTorch 2.13.
TEST(FlattenTest, GoesWherePyTorchGoes) {
  const ValuePtr tensor = pytorch::MakeWholeTensor("0", DType::kFloat32, {2});
  const ValuePtr one = MakeInteger(1);
  const ValuePtr value = MakeDict({
      {MakeText("number"), one},
      {MakeText("list"), MakeList({one, one})},
      {MakeText("mixed"), MakeList({tensor, one, MakeDict({{MakeText("c"), one}}), MakeList({tensor})})},
      {MakeText("dicts"), MakeList({MakeDict({{MakeText("c"), one}}), MakeList({one})})},
      {MakeText("tuple"), MakeTuple({tensor, one})},
      {MakeInteger(7), MakeDict({{MakeText("d"), one}})},
      {MakeText("empty"), MakeDict({})},
      {MakeText("nothing"), MakeList({})},
  });
  EXPECT_THAT(KeysOf(value, TorchRelease::kSince24),
              ElementsAre("x.number", "x.list", "x.mixed.0", "x.mixed.1", "x.mixed.2.c", "x.mixed.3.0", "x.dicts.0.c",
                          "x.dicts.1", "x.tuple", "x.7.d", "x.nothing"));
  EXPECT_THAT(KeysOf(value, TorchRelease::kUpTo23),
              ElementsAre("x.number", "x.list", "x.mixed.0", "x.mixed.1", "x.mixed.2", "x.mixed.3.0", "x.dicts",
                          "x.tuple", "x.7", "x.empty", "x.nothing"));
}

}  // namespace
}  // namespace ucp::dcp
