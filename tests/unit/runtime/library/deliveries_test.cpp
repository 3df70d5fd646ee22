// A Deliver() of the caller's that is not as it should be: all ranks say so, and none waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/runtime/library/job_of_threads.h"
#include "tests/unit/runtime/library/thrown.h"
#include "ucp/load.h"

namespace ucp {
namespace {

using testing::HasSubstr;

// Ranks of a job with a Deliver() that does nothing, and what it returns.
class RanksThatDeliverNothing : public Ranks {
 public:
  RanksThatDeliverNothing(Ranks& ranks, std::vector<bool> answers) : ranks_(ranks), answers_(std::move(answers)) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  std::vector<std::string> AllGather(const std::string& mine) override { return ranks_.AllGather(mine); }
  bool Deliver(std::span<const BytesToRank>, std::span<const BytesFromRank>) override {
    return answers_[std::min(calls_++, answers_.size() - 1)];
  }

 private:
  Ranks& ranks_;
  std::vector<bool> answers_;
  std::size_t calls_ = 0;
};

TEST(DeliveriesTest, ADeliveryThatIsNotDoneAfterAllIsAnErrorOfAll) {
  const std::vector<std::string> sentences = ThrownOnRanks(2, [](Ranks& job) {
    RanksThatDeliverNothing ranks(job, {true, false});
    ShardLoad load(Fixture("zero1_dp2"), "universal", {}, {.ranks = &ranks});
    load.Fill();
  });
  EXPECT_THAT(sentences, testing::Each(HasSubstr("the given ranks' Deliver() returned true where there was nothing to "
                                                 "deliver, and false for ")));
}

// Ranks of a job that deliver by its all-gather. The delivery of this number, counted from 1, is one that this rank
// says was none.
class RanksThatDeliver : public Ranks {
 public:
  RanksThatDeliver(Ranks& ranks, int failing) : ranks_(ranks), failing_(failing) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  std::vector<std::string> AllGather(const std::string& mine) override { return ranks_.AllGather(mine); }
  void AskToStop() override { ranks_.AskToStop(); }
  bool IsAskedToStop() override { return ranks_.IsAskedToStop(); }
  bool Deliver(std::span<const BytesToRank> gives, std::span<const BytesFromRank> takes) override {
    for (int to = 0; to < size(); ++to) {
      std::string mine;
      for (const BytesToRank& one : gives) {
        if (one.to == to) mine.append(reinterpret_cast<const char*>(one.bytes.data()), one.bytes.size());
      }
      const std::vector<std::string> all = AllGather(mine);
      std::vector<std::size_t> at(all.size());
      for (const BytesFromRank& one : takes) {
        if (to != rank()) break;
        const auto from = static_cast<std::size_t>(one.from);
        std::memcpy(one.bytes.data(), all[from].data() + at[from], one.bytes.size());
        at[from] += one.bytes.size();
      }
    }
    return ++calls_ != failing_;
  }
  int calls() const { return calls_; }

 private:
  Ranks& ranks_;
  const int failing_;
  int calls_ = 0;
};

TEST(DeliveriesTest, ADeliveryThatOneRankAloneHasNotDoneIsAnErrorOfAll) {
  auto fill = [](Ranks& ranks) {
    ShardLoad load(Fixture("zero1_dp2"), "universal", {}, {.ranks = &ranks});
    load.Fill();
  };
  int deliveries = 0;
  RunJob(3, [&](Ranks& job) {
    RanksThatDeliver ranks(job, 0);
    fill(ranks);
    if (job.rank() == 1) deliveries = ranks.calls();
  });
  ASSERT_GT(deliveries, 3);  // The empty one, those of planning, those of the load.
  for (int failing = 2; failing <= deliveries; ++failing) {
    SCOPED_TRACE(failing);
    const std::vector<std::string> sentences = ThrownOnRanks(3, [&](Ranks& job) {
      RanksThatDeliver ranks(job, job.rank() == 1 ? failing : 0);
      fill(ranks);
    });
    EXPECT_THAT(sentences,
                testing::Each(HasSubstr("the given ranks' Deliver() returned true where there was nothing")));
  }
}

TEST(DeliveriesTest, ADeliverThatThrowsOnOneRankIsAnErrorOfAll) {
  class Throwing : public RanksThatDeliver {
   public:
    using RanksThatDeliver::RanksThatDeliver;
    bool Deliver(std::span<const BytesToRank>, std::span<const BytesFromRank>) override {
      if (rank() == 1) throw Error(ErrorKind::kUsage, "no network");
      return true;
    }
  };
  const std::vector<std::string> sentences = ThrownOnRanks(3, [&](Ranks& job) {
    Throwing ranks(job, 0);
    ShardLoad load(Fixture("zero1_dp2"), "universal", {}, {.ranks = &ranks});
  });
  EXPECT_THAT(sentences, testing::Each(HasSubstr("no network")));
}

TEST(DeliveriesTest, RanksDeliverAllOrNone) {
  const std::vector<std::string> sentences = ThrownOnRanks(3, [](Ranks& job) {
    RanksThatDeliverNothing ranks(job, {job.rank() != 2});
    ShardLoad load(Fixture("zero1_dp2"), "universal", {}, {.ranks = &ranks});
  });
  EXPECT_THAT(sentences,
              testing::Each("the given ranks' Deliver() returns true on rank 0 and false on rank 2; all must "
                            "be alike"));
}

}  // namespace
}  // namespace ucp
