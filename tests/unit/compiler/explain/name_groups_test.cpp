#include "compiler/explain/name_groups.h"

#include <gmock/gmock.h>

namespace ucp {
namespace {

using testing::ElementsAre;

std::vector<std::string> Grouped(const std::vector<std::string>& names) {
  std::vector<NameOfKind> kinds;
  for (const std::string& name : names) kinds.push_back({name, ""});
  std::vector<std::string> groups;
  for (const NameGroup& group : GroupNames(kinds)) {
    groups.push_back(group.name + " x " + std::to_string(group.members.size()));
  }
  return groups;
}

TEST(NameGroupsTest, LayersAreOne) {
  EXPECT_THAT(Grouped({"a.0.w", "a.1.w", "a.2.w", "norm"}), ElementsAre("a.{0-2}.w x 3", "norm x 1"));
}

TEST(NameGroupsTest, NumbersThatAllHaveStayNumbers) {
  EXPECT_THAT(Grouped({"3.h_to_4h", "4.h_to_4h", "6.h_to_4h"}), ElementsAre("{3-4,6}.h_to_4h x 3"));
}

TEST(NameGroupsTest, ExpertsOfEachLayerAreAGrid) {
  EXPECT_THAT(Grouped({"0.e.0", "0.e.1", "1.e.0", "1.e.1"}), ElementsAre("{0-1}.e.{0-1} x 4"));
}

// 0 has two, 1 has one: `{0-1}.e.{0-1}` would name one that is not there.
TEST(NameGroupsTest, WhatIsNoGridIsSplit) {
  EXPECT_THAT(Grouped({"0.e.0", "0.e.1", "1.e.0"}), ElementsAre("0.e.{0-1} x 2", "1.e.0 x 1"));
}

TEST(NameGroupsTest, OtherKindsStayApart) {
  std::vector<NameGroup> groups = GroupNames({{"0.w", "dense"}, {"1.w", "sparse"}, {"2.w", "dense"}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].members, ElementsAre(0, 2));
  EXPECT_EQ(groups[1].name, "1.w");
}

// A name must be read back from the group's name: 007 is not 7, and long digits are not numbers.
TEST(NameGroupsTest, DigitsThatAreNoCountersAreText) {
  EXPECT_THAT(Grouped({"a.007", "a.008"}), ElementsAre("a.007 x 1", "a.008 x 1"));
  EXPECT_THAT(Grouped({"a.99999999999999999999", "a.0", ""}),
              ElementsAre("a.99999999999999999999 x 1", "a.0 x 1", " x 1"));
}

}  // namespace
}  // namespace ucp
