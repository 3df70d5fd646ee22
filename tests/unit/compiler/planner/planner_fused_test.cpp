// Tensors that cannot be put together to one shard.
#include <gmock/gmock.h>

#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::oracle {
namespace {

using testing::HasSubstr;

const TensorCut kWhole{{ShapeExpr::Length(3), ShapeExpr::Length(2)}};

// `t0` and `t1` in one shard, whichever way.
Side BothInOne(const std::vector<TensorCut>& tensors, bool moments) {
  Strategy strategy;
  strategy.moments = moments;
  while (true) {
    ++strategy.fuse;
    Side side = Build(tensors, strategy);
    if (side.files.storage.shards.size() == 1 && side.files.storage.shards[0].pieces.size() == 2) return side;
  }
}

std::string Refusal(const Side& source, const Side& target) {
  auto plan = MakePlan(source, target);
  return plan ? "accepted" : TakeFailure(plan.takeError()).message;
}

TEST(PlannerOfFusedShardsTest, TensorsOfOneShardHaveTheSameStates) {
  const Side target = BothInOne({kWhole, kWhole}, true);
  Side source = Build({kWhole, kWhole}, {});
  EXPECT_EQ(Refusal(source, target), "accepted");
  const Shard second = source.files.storage.shards[1];
  ASSERT_EQ(second.tensor, "t1");
  BufferSet& states = source.files.storage.buffer_sets[second.states.index()];
  ASSERT_EQ(states.front().state, "exp_avg");
  const BufferId moments = states.front().buffer;
  states.erase(states.begin());
  EXPECT_THAT(
      Refusal(source, target),
      HasSubstr("is put together of `t0` and `t1`, and the state `exp_avg` is bfloat16 in the first and not held "
                "in the second of them"));
  states.insert(states.begin(), StateBuffer{"exp_avg", moments});
  source.files.storage.buffers[moments.index()].dtype = DType::kFloat16;
  EXPECT_THAT(Refusal(source, target), HasSubstr("is bfloat16 in the first and float16 in the second of them"));
}

TEST(PlannerOfFusedShardsTest, TensorsOfOneShardHaveTheSameArithmetic) {
  Strategy without_moments;
  without_moments.moments = false;
  const Side source = Build({kWhole, kWhole}, without_moments);
  Side target = BothInOne({kWhole, kWhole}, false);
  target.layout.tensors[0].scale = target.layout.tensors[1].scale = {1, 2};
  EXPECT_EQ(Refusal(source, target), "accepted");
  target.layout.tensors[0].scale = {};
  EXPECT_THAT(Refusal(source, target),
              HasSubstr("is put together of `t0` and `t1`, which are not averaged, scaled and offset alike"));
}

}  // namespace
}  // namespace ucp::oracle
