// Bytes of ranks, counted by hand.
#include "compiler/page/rank_bytes.h"

#include <gmock/gmock.h>

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

class RankBytesTest : public testing::Test {
 protected:
  // A buffer of `parts` ranks with `part_elements` each.
  BufferSetId States(const std::string& state, DType dtype, std::size_t parts, std::int64_t part_elements) {
    Buffer buffer{dtype, part_elements, {}};
    for (std::size_t part = 0; part < parts; ++part) buffer.parts.push_back({RecordId(0), 0, part_elements});
    return storage_.Add(BufferSet{{state, storage_.Add(std::move(buffer))}});
  }
  void AddShard(const std::string& tensor, Coordinate at, std::int64_t elements, std::int64_t base,
                BufferSetId states) {
    Shard shard;
    shard.tensor = tensor;
    shard.coordinate = std::move(at);
    shard.shape = {elements};
    shard.base = base;
    shard.states = states;
    storage_.shards.push_back(std::move(shard));
  }

  Storage storage_;
};

// Elements 0 to 5 of a vector of 10 are `a`, and 6 to 9 are `b`; two ranks have 5 elements each.
TEST_F(RankBytesTest, APartIsOfOneRankAndACopyOfAll) {
  const BufferSetId masters = States("fp32", DType::kFloat32, 2, 5);
  const BufferSetId weights = States("weight", DType::kBFloat16, 1, 6);
  AddShard("a", {}, 6, 0, masters);
  AddShard("b", {}, 4, 6, masters);
  AddShard("a", {}, 6, 0, weights);
  const RankBytes all = BytesOfRanks(storage_, CountedStates::kAll);
  EXPECT_THAT(all.ranks, ElementsAre("part=0", "part=1"));
  EXPECT_THAT(all.of_tensor, UnorderedElementsAre(Pair("a", ElementsAre(5 * 4 + 6 * 2, 1 * 4 + 6 * 2)),
                                                  Pair("b", ElementsAre(0, 4 * 4))));
  const RankBytes parts = BytesOfRanks(storage_, CountedStates::kPartitioned);
  EXPECT_THAT(parts.of_tensor, UnorderedElementsAre(Pair("a", ElementsAre(20, 4)), Pair("b", ElementsAre(0, 16))));
}

TEST_F(RankBytesTest, EachTensorIsCutByItselfAtStageThree) {
  AddShard("a", {}, 7, 0, States("fp32", DType::kFloat32, 3, 0));
  storage_.shards.back().spread = Spread::kEachTensor;
  EXPECT_THAT(BytesOfRanks(storage_, CountedStates::kAll).of_tensor,
              UnorderedElementsAre(Pair("a", ElementsAre(12, 12, 4))));
}

TEST_F(RankBytesTest, WithoutPartitionsACoordinateIsOneColumn) {
  const BufferSetId weights = States("weight", DType::kFloat32, 1, 8);
  AddShard("a", {{{"tp", 0}}}, 2, 0, weights);
  AddShard("a", {{{"tp", 1}}}, 2, 0, weights);
  AddShard("b", {{{"tp", 1}}}, 3, 2, weights);
  const RankBytes bytes = BytesOfRanks(storage_, CountedStates::kAll);
  EXPECT_THAT(bytes.ranks, ElementsAre("tp=0", "tp=1"));
  EXPECT_THAT(bytes.of_tensor, UnorderedElementsAre(Pair("a", ElementsAre(8, 8)), Pair("b", ElementsAre(0, 12))));
  EXPECT_THAT(BytesOfRanks(storage_, CountedStates::kPartitioned).ranks, ElementsAre());
}

TEST_F(RankBytesTest, ManyRanksAreCut) {
  AddShard("a", {{{"tp", 0}}}, 40, 0, States("fp32", DType::kFloat32, 40, 1));
  AddShard("b", {{{"tp", 1}}}, 40, 0, States("fp32", DType::kFloat32, 40, 1));
  const RankBytes bytes = BytesOfRanks(storage_, CountedStates::kAll);
  EXPECT_EQ(bytes.ranks.size(), 32u);
  EXPECT_EQ(bytes.more_ranks, 48u);
  EXPECT_THAT(bytes.of_tensor.at("b"), testing::Each(0));
}

}  // namespace
}  // namespace ucp
