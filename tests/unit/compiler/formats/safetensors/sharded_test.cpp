#include "compiler/formats/safetensors/sharded.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "compiler/formats/safetensors/file_names.h"
#include "compiler/support/error.h"

namespace ucp::safetensors {
namespace {

std::string BeginsOf(std::string_view json) {
  auto begins = ParseShardingInfo(json);
  if (!begins) return TakeFailure(begins.takeError()).message;
  std::string text;
  for (const auto& [name, begin] : *begins) text += fmt::format("{} [{}] ", name, fmt::join(begin, ", "));
  return text;
}

TEST(ShardingInfo, IsRead) {
  EXPECT_EQ(BeginsOf(R"({"b": {"saved_offsets": [4, 0]}, "a": {"saved_offsets": []}})"), "a [] b [4, 0] ");
  EXPECT_EQ(BeginsOf("{}"), "");
}

TEST(ShardingInfo, IsRefusedWhereItIsAnotherThing) {
  EXPECT_EQ(BeginsOf(R"({"a": {}})"), "tensor `a`: it lacks `saved_offsets`");
  EXPECT_EQ(BeginsOf(R"({"a": {"saved_offsets": [0], "logical_fqn": "b"}})"),
            "tensor `a`: it has `logical_fqn` beside `saved_offsets`, which is not known");
  for (const char* json : {"", "[]", R"({"a": 1})", R"({"a": {"saved_offsets": [-1]}})",
                           R"({"a": {"saved_offsets": [0]}, "a": {"saved_offsets": [1]}})", "{} x"}) {
    auto begins = ParseShardingInfo(json);
    EXPECT_FALSE(static_cast<bool>(begins)) << json;
    llvm::consumeError(begins.takeError());
  }
}

SavedBox BoxOf(std::vector<std::int64_t> begin, std::vector<std::int64_t> shape) {
  return {"f", RecordId(0), DType::kFloat32, std::move(begin), std::move(shape)};
}

std::string Joined(std::vector<SavedBox> boxes) {
  auto shape = JoinBoxes("t", boxes);
  if (!shape) return TakeFailure(shape.takeError()).message;
  return fmt::format("[{}] of {}", fmt::join(*shape, ", "), boxes.size());
}

TEST(JoinBoxes, AreAllOfATensor) {
  EXPECT_EQ(Joined({BoxOf({2, 0}, {1, 4}), BoxOf({0, 0}, {2, 4})}), "[3, 4] of 2");
  EXPECT_EQ(Joined({BoxOf({}, {})}), "[] of 1");
  EXPECT_EQ(Joined({BoxOf({0}, {3}), BoxOf({3}, {0})}), "[3] of 1");
  EXPECT_EQ(Joined({BoxOf({0, 0}, {0, 4}), BoxOf({0, 0}, {0, 4})}), "[0, 4] of 1");
}

TEST(JoinBoxes, WithoutElementsShowHowFarATensorReaches) {
  EXPECT_EQ(Joined({BoxOf({0}, {3}), BoxOf({5}, {0})}),
            "the files hold 3 of the 5 elements of `t`, which reaches to [5]; copy the files of all ranks");
}

TEST(JoinBoxes, ThatMeetAreRefused) {
  EXPECT_EQ(Joined({BoxOf({0}, {3}), BoxOf({2}, {2})}),
            "two files hold the same elements of `t`: [3] at [0] in `f`, and [2] at [2] in `f`");
}

TEST(JoinBoxes, BeyondAnyTensorAreRefused) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Joined({BoxOf({kMost}, {1})}), fmt::format("`t`: [1] at [{}] in `f` is beyond any tensor", kMost));
  EXPECT_EQ(Joined({BoxOf({kMost - 1}, {1})}),
            fmt::format("the boxes of `t` reach to [{}], which is not the size of a tensor", kMost));
}

// Cuts of small tensors, of which some boxes are moved or lost; a mask of elements says what is right.
TEST(JoinBoxes, AgreeWithAMaskOfElements) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t end) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(end)); };
  int accepted = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<SavedBox> boxes;
    const std::int64_t rows = 1 + below(4);
    const std::int64_t columns = 1 + below(4);
    const std::int64_t row_cut = below(rows + 1);
    const std::int64_t column_cut = below(columns + 1);
    for (const auto& [r, rs] : {std::pair(std::int64_t{0}, row_cut), std::pair(row_cut, rows - row_cut)}) {
      for (const auto& [c, cs] :
           {std::pair(std::int64_t{0}, column_cut), std::pair(column_cut, columns - column_cut)}) {
        if (below(12) > 0) boxes.push_back(BoxOf({r + (below(20) == 0 ? 1 : 0), c}, {rs, cs}));
      }
    }
    if (boxes.empty()) continue;
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::map<std::pair<std::int64_t, std::int64_t>, int> times;
    for (const SavedBox& box : boxes) {
      height = std::max(height, box.begin[0] + box.shape[0]);
      width = std::max(width, box.begin[1] + box.shape[1]);
      for (std::int64_t i = 0; i < box.shape[0]; ++i) {
        for (std::int64_t j = 0; j < box.shape[1]; ++j) ++times[{box.begin[0] + i, box.begin[1] + j}];
      }
    }
    bool is_right = std::ssize(times) == height * width;
    for (const auto& [place, count] : times) is_right = is_right && count == 1;
    const std::string joined = Joined(boxes);
    EXPECT_EQ(joined.starts_with(fmt::format("[{}, {}] of ", height, width)), is_right) << joined;
    if (is_right) ++accepted;
  }
  EXPECT_GT(accepted, 500);
  EXPECT_LT(accepted, 1900);
}

TEST(RankFiles, AreKnownByTheirNames) {
  EXPECT_TRUE(IsRankFile("shard-00001-model-00001-of-00001.safetensors"));
  EXPECT_TRUE(IsRankFile("shard-123456-model-00001-of-00010.safetensors"));
  for (const char* name : {"shard-0001-model-00001-of-00001.safetensors", "model-00001-of-00001.safetensors",
                           "shard-00001-model-00001-of-00001.safetensors.index.json", "shard-00001.safetensors",
                           "shard-00001-model-0000x-of-00001.safetensors", "shard-00001-model-00001-of-", ""}) {
    EXPECT_FALSE(IsRankFile(name)) << name;
  }
}

}  // namespace
}  // namespace ucp::safetensors
