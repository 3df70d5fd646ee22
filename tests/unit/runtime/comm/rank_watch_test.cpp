// With ranks that are threads. Real ones are stopped, killed and made to hang in tests/programs/test_ranks_killed.py.
#include "runtime/comm/rank_watch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <mutex>
#include <thread>

#include "compiler/support/ongoing_calls.h"
#include "tests/unit/runtime/comm/thread_ranks.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The reports of the ranks' watches, by rank.
class Said {
 public:
  explicit Said(int ranks) : by_rank_(static_cast<std::size_t>(ranks)) {}

  std::function<void(const std::string&)> By(int rank) {
    return [this, rank](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      by_rank_[static_cast<std::size_t>(rank)].push_back(sentence);
    };
  }
  std::vector<std::string> Of(int rank) {
    const std::lock_guard lock(mutex_);
    return by_rank_[static_cast<std::size_t>(rank)];
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<std::string>> by_rank_;
};

std::unique_ptr<RankWatch> Watch(Communicator& ranks, Said& said) {
  auto watch = RankWatch::Begin(ranks, {std::chrono::seconds(1), "Go on"}, said.By(ranks.rank()));
  EXPECT_TRUE(static_cast<bool>(watch));
  return watch ? std::move(*watch) : nullptr;
}

TEST(RankWatchTest, RanksThatLiveAndEndAtDifferentTimesAreLetBe) {
  Said said(3);
  OnRanks(3, [&](Communicator& ranks) {
    const std::unique_ptr<RankWatch> watch = Watch(ranks, said);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500 * ranks.rank()));  // Longer than the patience.
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(said.Of(rank), IsEmpty());
}

TEST(RankWatchTest, ARankThatFallsSilentIsNamedByOneOfTheOthers) {
  Said said(3);
  OnRanks(3, [&](Communicator& ranks) {
    if (ranks.rank() == 1) {
      auto all = ranks.AllGather("4711\nelsewhere\nfar");
      EXPECT_TRUE(static_cast<bool>(all));
      while (said.Of(0).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    const std::unique_ptr<RankWatch> watch = Watch(ranks, said);
    while (said.Of(0).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  EXPECT_THAT(said.Of(2), ElementsAre(HasSubstr("rank 1 (process 4711 on far) has not answered for 1 seconds")));
  EXPECT_THAT(said.Of(2), ElementsAre(testing::EndsWith(". Go on")));
  EXPECT_THAT(said.Of(0), ElementsAre(""));
}

TEST(RankWatchTest, ACallThatDoesNotReturnIsNamed) {
  Said said(2);
  OnRanks(2, [&](Communicator& ranks) {
    const std::unique_ptr<RankWatch> watch = Watch(ranks, said);
    const Ongoing ongoing("reading", "/mnt/x");  // Of the whole process, so both show it.
    for (int waits = 0; waits < 500 && said.Of(0).empty() && said.Of(1).empty(); ++waits) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const std::string all =
      fmt::format("{}{}", said.Of(0).empty() ? "" : said.Of(0)[0], said.Of(1).empty() ? "" : said.Of(1)[0]);
  EXPECT_THAT(all, HasSubstr("has been reading `/mnt/x` for 1 seconds; its disk or mount does not answer. Go on"));
}

TEST(RankWatchTest, OneRankHasNoWatch) {
  auto watch = RankWatch::Begin(SingleProcess(), {}, nullptr);
  ASSERT_TRUE(static_cast<bool>(watch));
  EXPECT_EQ(*watch, nullptr);
}

}  // namespace
}  // namespace ucp
