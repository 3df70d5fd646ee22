// The amount that each rank reads, and the time at which it gives it to others, for random sets of ranks.
#include "runtime/load/share_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace ucp {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<SharedBytes> RandomSets(std::mt19937& random, int ranks) {
  std::set<std::vector<int>> members;
  for (int i = 0; i < 12; ++i) {
    std::vector<int> set;
    for (int rank = 0; rank < ranks; ++rank) {
      if (random() % 3 == 0) set.push_back(rank);
    }
    if (set.size() > 1) members.insert(set);
  }
  std::vector<SharedBytes> sets;
  for (const std::vector<int>& set : members) {
    const std::uint64_t bytes = random() % 2 == 0 ? random() % 100 + 1 : random() % 1'000'000;
    sets.push_back({set, bytes, bytes * 2});
  }
  return sets;
}

TEST(ExchangeScheduleTest, OneSetIsReadInEqualParts) {
  const std::vector<SharedBytes> sets = {{{0, 2, 3}, 50, 100}};
  EXPECT_THAT(QuotasOf(sets, std::vector<std::uint64_t>(4, 0)), ElementsAre(ElementsAre(34, 33, 33)));
}

TEST(ExchangeScheduleTest, WhoReadsMoreForItselfReadsLessForOthers) {
  const std::vector<SharedBytes> sets = {{{0, 1, 2}, 50, 100}};
  EXPECT_THAT(QuotasOf(sets, std::vector<std::uint64_t>{70, 10, 1000}), ElementsAre(ElementsAre(20, 80, 0)));
}

// Rank 0 shares something with each of the others: it must not read half of everything.
TEST(ExchangeScheduleTest, ARankInManySetsDoesNotReadForAll) {
  std::vector<SharedBytes> sets;
  for (int rank = 1; rank < 9; ++rank) sets.push_back({{0, rank}, 1000, 1000});
  const auto quotas = QuotasOf(sets, std::vector<std::uint64_t>(9, 0));
  std::uint64_t of_first = 0;
  for (const auto& quota : quotas) of_first += quota[0];
  EXPECT_LE(of_first, 1000U);
  EXPECT_GE(of_first, 500U);
}

TEST(ExchangeScheduleTest, QuotasAreAllOfASetAndNoMemberCouldTakeFromALowerOne) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const std::vector<SharedBytes> sets = RandomSets(random, ranks);
    std::vector<std::uint64_t> alone(static_cast<std::size_t>(ranks));
    for (std::uint64_t& load : alone) load = random() % 100'000;
    const auto quotas = QuotasOf(sets, alone);
    std::vector<std::size_t> order(sets.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t set) { return sets[set].ranks.size(); });
    std::vector<std::uint64_t> loads = alone;
    for (std::size_t set : order) {
      ASSERT_EQ(std::accumulate(quotas[set].begin(), quotas[set].end(), std::uint64_t{0}), sets[set].cost);
      for (std::size_t m = 0; m < quotas[set].size(); ++m) {
        loads[static_cast<std::size_t>(sets[set].ranks[m])] += quotas[set][m];
      }
      std::uint64_t lowest = UINT64_MAX;
      for (int rank : sets[set].ranks) lowest = std::min(lowest, loads[static_cast<std::size_t>(rank)]);
      for (std::size_t m = 0; m < quotas[set].size(); ++m) {
        if (quotas[set][m] == 0) continue;
        ASSERT_LE(loads[static_cast<std::size_t>(sets[set].ranks[m])], lowest + 1);
      }
    }
  }
}

TEST(ExchangeScheduleTest, NoRankTakesMoreThanARoundsBytes) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const std::vector<SharedBytes> sets = RandomSets(random, ranks);
    const std::uint64_t round_bytes = 1000 + random() % 100'000;
    const ExchangeSchedule schedule = MakeSchedule(sets, ranks, round_bytes);
    ASSERT_EQ(schedule.rounds_of_set.size(), sets.size());
    std::map<std::pair<int, std::uint32_t>, std::uint64_t> taken;
    for (std::size_t set = 0; set < sets.size(); ++set) {
      const auto& rounds = schedule.rounds_of_set[set];
      ASSERT_FALSE(rounds.empty());
      ASSERT_EQ(std::ranges::adjacent_find(rounds, std::greater_equal()), rounds.end());
      ASSERT_LT(rounds.back(), schedule.rounds);
      // In the worst case each member has a piece too much.
      const std::uint64_t pieces = PieceBytesOf(sets[set], round_bytes) * sets[set].ranks.size();
      const std::uint64_t part = (sets[set].bytes + rounds.size() - 1) / rounds.size();
      for (std::uint32_t number : rounds) {
        for (int rank : sets[set].ranks) taken[{rank, number}] += std::min(sets[set].bytes, part + pieces);
      }
    }
    for (const auto& [place, bytes] : taken) ASSERT_LE(bytes, round_bytes);
  }
}

// A chain, in which each rank has something in common with the next: what rank 0 does must not hold up rank 63.
TEST(ExchangeScheduleTest, SetsWithoutACommonRankAreExchangedAtTheSameTime) {
  std::vector<SharedBytes> sets;
  for (int rank = 0; rank < 63; ++rank) sets.push_back({{rank, rank + 1}, 10'000, 10'000});
  const ExchangeSchedule schedule = MakeSchedule(sets, 64, 1000);
  EXPECT_EQ(schedule.rounds_of_set.front().size(), 20U);
  EXPECT_LE(schedule.rounds, 2U * 20U);
}

TEST(ExchangeScheduleTest, ManySmallSetsShareARound) {
  std::vector<SharedBytes> sets;
  for (int rank = 1; rank < 50; ++rank) sets.push_back({{0, rank}, 10, 10});
  EXPECT_EQ(MakeSchedule(sets, 50, 1000).rounds, 1U);
}

}  // namespace
}  // namespace ucp
