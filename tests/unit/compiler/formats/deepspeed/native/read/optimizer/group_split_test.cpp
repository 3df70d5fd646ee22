// Against a walk over every assignment of parameters to groups.
#include "compiler/formats/deepspeed/native/read/optimizer/group_split.h"

#include <gtest/gtest.h>

#include <random>

namespace ucp::deepspeed {
namespace {

std::vector<std::vector<std::size_t>> AllAssignments(std::size_t parameters, std::size_t groups) {
  std::vector<std::vector<std::size_t>> all = {{}};
  for (std::size_t i = 0; i < parameters; ++i) {
    std::vector<std::vector<std::size_t>> longer;
    for (const auto& begun : all) {
      for (std::size_t g = 0; g < groups; ++g) {
        longer.push_back(begun);
        longer.back().push_back(g);
      }
    }
    all = std::move(longer);
  }
  return all;
}

bool Fits(const std::vector<std::size_t>& group_of, const std::vector<std::int64_t>& sizes,
          const std::vector<GroupRoom>& rooms) {
  std::vector<std::int64_t> used(rooms.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) used[group_of[i]] += sizes[i];
  for (std::size_t g = 0; g < rooms.size(); ++g) {
    if (used[g] < rooms[g].least || used[g] > rooms[g].most) return false;
  }
  return true;
}

bool IsInOrder(const std::vector<std::size_t>& group_of, std::size_t groups) {
  std::vector<std::size_t> seen;
  for (std::size_t g : group_of) {
    if (seen.empty() || seen.back() != g) seen.push_back(g);
  }
  for (std::size_t g = 0; g < seen.size(); ++g) {
    if (seen[g] != g) return false;
  }
  return seen.size() == groups;
}

GroupSplit Only(const std::vector<std::vector<std::size_t>>& found) {
  return found.size() == 1 ? GroupSplit(found.front()) : std::nullopt;
}

TEST(GroupSplit, DecidesWhatExactlyOneAssignmentFits) {
  std::mt19937 random(7);
  int decided_in_order = 0;
  int decided_by_sizes = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t groups = 1 + random() % 3;
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0, count = groups + random() % 4; i < count; ++i) {
      sizes.push_back(static_cast<std::int64_t>(1 + random() % 12));
    }
    std::vector<GroupRoom> rooms(groups);
    const auto slack = static_cast<std::int64_t>(random() % 2);
    for (std::size_t i = 0; i < sizes.size(); ++i) rooms[i * groups / sizes.size()].most += sizes[i];
    for (GroupRoom& room : rooms) {
      room.most += slack;
      room.least = room.most - 2 * slack;
    }
    std::vector<std::vector<std::size_t>> any;
    std::vector<std::vector<std::size_t>> in_order;
    for (const auto& assignment : AllAssignments(sizes.size(), groups)) {
      if (!Fits(assignment, sizes, rooms)) continue;
      any.push_back(assignment);
      if (IsInOrder(assignment, groups)) in_order.push_back(assignment);
    }
    EXPECT_EQ(SplitInOrder(sizes, rooms), Only(in_order));
    EXPECT_EQ(SplitBySizes(sizes, rooms), Only(any));
    decided_in_order += in_order.size() == 1 ? 1 : 0;
    decided_by_sizes += any.size() == 1 ? 1 : 0;
  }
  EXPECT_GT(decided_in_order, 1000);
  EXPECT_GT(decided_by_sizes, 500);
}

TEST(GroupSplit, ParameterWithoutElementsStaysWithTheOneBeforeIt) {
  const std::vector<std::int64_t> sizes = {4, 0, 3};
  const std::vector<GroupRoom> rooms = {{4, 4}, {3, 3}};
  EXPECT_EQ(SplitInOrder(sizes, rooms), (std::vector<std::size_t>{0, 0, 1}));
}

// A layer's weights decay and its biases and norms do not, a thousand times: sizes decide at once.
TEST(GroupSplit, ManyParametersOfFewSizes) {
  std::vector<std::int64_t> sizes;
  std::vector<GroupRoom> rooms(2);
  std::vector<std::size_t> expected;
  for (int layer = 0; layer < 1000; ++layer) {
    for (const auto& [size, group] : {std::pair<std::int64_t, std::size_t>{4096 * 4096, 0}, {4096, 1}, {4096, 1}}) {
      sizes.push_back(size);
      rooms[group].least += size;
      rooms[group].most += size;
      expected.push_back(group);
    }
  }
  EXPECT_EQ(SplitBySizes(sizes, rooms), expected);
}

}  // namespace
}  // namespace ucp::deepspeed
