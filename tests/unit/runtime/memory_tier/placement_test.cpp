#include "runtime/memory_tier/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <set>

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Placement Place(std::int64_t machines, std::int64_t copies, const std::vector<std::string>& domains = {}) {
  return llvm::cantFail(PlaceMachines(machines, copies, domains));
}

// Of all sets of so many lost machines, those that leave a keeper of each state.
double CountedChance(const Placement& placement, int lost) {
  const auto machines = static_cast<int>(placement.order.size());
  std::vector<std::uint32_t> keepers;
  for (int place = 0; place < machines; ++place) {
    std::uint32_t set = 0;
    for (std::int64_t keeper : KeepersOf(placement, place)) set |= 1U << keeper;
    keepers.push_back(set);
  }
  std::int64_t sets = 0;
  std::int64_t harmless = 0;
  for (std::uint32_t set = 0; set < 1U << machines; ++set) {
    if (std::popcount(set) != lost) continue;
    ++sets;
    harmless += std::ranges::none_of(keepers, [&](std::uint32_t of) { return (of & ~set) == 0; }) ? 1 : 0;
  }
  return static_cast<double>(harmless) / static_cast<double>(sets);
}

TEST(PlacementTest, GroupsAndRingOfThePaper) {
  const Placement groups = Place(4, 2);
  EXPECT_THAT(KeepersOf(groups, 0), ElementsAre(0, 1));
  EXPECT_THAT(KeepersOf(groups, 3), ElementsAre(3, 2));
  const Placement mixed = Place(5, 2);
  EXPECT_EQ(mixed.groups, 1);
  EXPECT_EQ(mixed.ring, 3);
  EXPECT_THAT(KeepersOf(mixed, 1), ElementsAre(1, 0));
  EXPECT_THAT(KeepersOf(mixed, 2), ElementsAre(2, 4));
  EXPECT_THAT(KeepersOf(mixed, 4), ElementsAre(4, 3));
  EXPECT_THAT(KeepersOf(Place(3, 1), 2), ElementsAre(2));
}

// Each machine keeps as many states of others as it sends.
TEST(PlacementTest, EveryMachineKeepsAsManyAsItSends) {
  for (std::int64_t machines = 1; machines <= 40; ++machines) {
    for (std::int64_t copies = 1; copies <= std::min<std::int64_t>(machines, 6); ++copies) {
      const Placement placement = Place(machines, copies);
      std::vector<std::int64_t> kept(static_cast<std::size_t>(machines));
      for (std::int64_t place = 0; place < machines; ++place) {
        const std::vector<std::int64_t> keepers = KeepersOf(placement, place);
        EXPECT_EQ(keepers.front(), place);
        EXPECT_EQ(std::set(keepers.begin(), keepers.end()).size(), static_cast<std::size_t>(copies));
        for (std::int64_t keeper : keepers) ++kept.at(static_cast<std::size_t>(keeper));
      }
      EXPECT_THAT(kept, ::testing::Each(copies)) << machines << " machines, " << copies << " copies";
    }
  }
}

TEST(PlacementTest, ChancesAreThoseOfAllSets) {
  for (std::int64_t machines = 1; machines <= 14; ++machines) {
    for (std::int64_t copies = 1; copies <= std::min<std::int64_t>(machines, 5); ++copies) {
      const Placement placement = Place(machines, copies);
      for (int lost = 0; lost <= std::min<std::int64_t>(machines, 7); ++lost) {
        EXPECT_NEAR(ChanceOfRecovery(placement, lost), CountedChance(placement, lost), 1e-12)
            << machines << " machines, " << copies << " copies, " << lost << " lost";
      }
    }
  }
}

TEST(PlacementTest, FiguresOfThePaper) {
  EXPECT_NEAR(ChanceOfRecovery(Place(16, 2), 2), 0.9333, 5e-5);
  EXPECT_NEAR(ChanceOfRecovery(Place(16, 2), 3), 0.8000, 5e-5);
  EXPECT_NEAR(ChanceOfRecovery(Place(16, 2), 4), 0.6154, 5e-5);
  EXPECT_NEAR(ChanceOfRecovery(Place(17, 2), 2), 0.9265, 5e-5);
  EXPECT_NEAR(ChanceOfRecovery(Place(1000, 2), 8), 0.9722, 5e-5);
  EXPECT_NEAR(ChanceOfRecovery(Place(16, 3), 4), 0.9445, 5e-5);
  EXPECT_NEAR(ChanceOfRecovery(Place(100'000, 2), 2), 1 - 1.0 / 99'999, 1e-9);
}

// More than can be counted: drawn sets.
TEST(PlacementTest, ChanceOfManyMachines) {
  const Placement placement = Place(1001, 3);
  std::mt19937_64 random(7);
  std::vector<std::int64_t> machines = placement.order;
  constexpr int kDraws = 3000;
  int recovered = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    for (std::size_t i = 0; i < 120; ++i) {
      std::swap(machines[i], machines[i + random() % (machines.size() - i)]);
    }
    recovered += IsRecoverable(placement, llvm::ArrayRef(machines).take_front(120)) ? 1 : 0;
  }
  const double chance = ChanceOfRecovery(placement, 120);
  EXPECT_NEAR(static_cast<double>(recovered) / kDraws, chance, 5 * std::sqrt(chance * (1 - chance) / kDraws));
}

TEST(PlacementTest, NeighboursAreOfOtherDomains) {
  const Placement racks = Place(6, 2, {"a", "a", "a", "b", "b", "b"});
  EXPECT_THAT(racks.order, ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_TRUE(IsRecoverable(racks, {0, 1, 2}));
  EXPECT_TRUE(IsRecoverable(racks, {3, 4, 5}));
  EXPECT_FALSE(IsRecoverable(racks, {0, 3}));
  EXPECT_FALSE(IsRecoverable(Place(6, 2), {0, 1, 2}));
  const Placement unequal = Place(5, 2, {"a", "b", "b", "b", "c"});
  EXPECT_THAT(unequal.order, ElementsAre(1, 0, 4, 2, 3));
}

std::string RefusalOf(std::int64_t machines, std::int64_t copies, const std::vector<std::string>& domains = {}) {
  return llvm::toString(PlaceMachines(machines, copies, domains).takeError());
}

TEST(PlacementTest, Refusals) {
  EXPECT_THAT(RefusalOf(4, 5), HasSubstr("5 copies of each state on 4 machines"));
  EXPECT_THAT(RefusalOf(0, 1), HasSubstr("on 0 machines"));
  EXPECT_THAT(RefusalOf(4, 2, {"a"}), HasSubstr("4 machines and 1 failure domains"));
}

}  // namespace
}  // namespace ucp
