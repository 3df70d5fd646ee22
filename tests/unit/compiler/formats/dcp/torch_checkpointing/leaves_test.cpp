#include "compiler/formats/dcp/torch_checkpointing/leaves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/dcp/torch_checkpointing/rank_metadata.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::MakeTuple;
using pytorch::ValuePtr;
using ::testing::ElementsAre;

ValuePtr ATensor() { return pytorch::MakeWholeTensor("0", DType::kFloat32, {2}); }

// "a.0 = 1"
std::vector<std::string> LeavesOf(const ValuePtr& item) {
  std::vector<std::string> leaves;
  llvm::Error error = ForEachLeaf(item, [&](const std::vector<PathPart>& path, const ValuePtr& value) {
    const bool is_tensor = value->As<pytorch::Tensor>() != nullptr;
    leaves.push_back(PathText(path) + " = " + (is_tensor ? "tensor" : pytorch::Print(*value)));
    return llvm::Error::success();
  });
  if (error) leaves.push_back(TakeFailure(std::move(error)).message);
  return leaves;
}

TEST(LeavesTest, AreThoseOfAFlattenedStateDict) {
  const ValuePtr groups = MakeList({MakeDict({{MakeText("betas"), MakeTuple({MakeInteger(1), MakeInteger(2)})},
                                              {MakeText("params"), MakeList({MakeText("a")})}})});
  EXPECT_THAT(LeavesOf(MakeDict({{MakeText("a.weight"), ATensor()}, {MakeText("groups"), groups}})),
              ElementsAre("a.weight = tensor", "groups.0.betas = (1, 2)", "groups.0.params = ['a']"));
}

TEST(LeavesTest, AnItemMayBeOneValue) {
  EXPECT_THAT(LeavesOf(MakeInteger(7)), ElementsAre(" = 7"));
  EXPECT_THAT(LeavesOf(ATensor()), ElementsAre(" = tensor"));
}

TEST(LeavesTest, TuplesAndNumbersAreTakenApartForTheirTensors) {
  EXPECT_THAT(LeavesOf(MakeDict({{MakeText("t"), MakeTuple({ATensor(), MakeInteger(3)})},
                                 {MakeText("state"), MakeDict({{MakeInteger(5), ATensor()}})},
                                 {MakeText("counts"), MakeDict({{MakeInteger(5), MakeInteger(1)}})}})),
              ElementsAre("t.0 = tensor", "t.1 = 3", "state.5 = tensor", "counts = {5: 1}"));
  EXPECT_THAT(LeavesOf(MakeDict({{MakeTuple({MakeInteger(1)}), ATensor()}})),
              ElementsAre("a dict that holds tensors has the key (1), which is not a text"));
}

// Each list holds the one before it twice.
TEST(LeavesTest, SharedValuesAreCounted) {
  ValuePtr value = MakeDict({{MakeText("a"), MakeInteger(1)}});
  ValuePtr without = MakeList({MakeInteger(1)});
  for (int level = 0; level < 60; ++level) {
    value = MakeList({value, value});
    without = MakeList({without, without});
  }
  std::size_t leaves = 0;
  llvm::Error error = ForEachLeaf(value, [&](const std::vector<PathPart>&, const ValuePtr&) {
    ++leaves;
    return llvm::Error::success();
  });
  EXPECT_EQ(TakeFailure(std::move(error)).message, "it holds more than 10000000 values");
  llvm::Error none =
      ForEachLeaf(without, [&](const std::vector<PathPart>&, const ValuePtr&) { return llvm::Error::success(); });
  EXPECT_FALSE(static_cast<bool>(none));
}

}  // namespace
}  // namespace ucp::dcp
