// One message of a rank arrives damaged: then all ranks come to the same end, and none waits for ever. To
// plan a load ranks have dozens of things to say, and each of them is damaged in turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "compiler/plan/codec.h"
#include "compiler/support/error.h"
#include "runtime/load/load.h"
#include "runtime/load_plan/compile_for_job.h"
#include "runtime/load_plan/load_plan.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/load/loaded_records.h"
#include "tests/unit/runtime/load/small_load.h"

namespace ucp {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

enum class Damage { kInverted, kCut };

std::string Damaged(std::string bytes, Damage damage) {
  if (damage == Damage::kCut) return bytes.substr(0, bytes.size() / 2);
  for (char& byte : bytes) byte = static_cast<char>(~byte);
  return bytes;
}

// A rank whose nth gift that is more than one byte is damaged.
class DamagedTalk : public Communicator {
 public:
  DamagedTalk(Communicator& ranks, int nth, Damage damage) : ranks_(ranks), left_(nth), damage_(damage) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    return ranks_.AllGather(mine.size() > 1 && IsItsTurn() ? Damaged(mine, damage_) : mine);
  }
  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override {
    if (sending.empty() || !IsItsTurn()) return ranks_.Deliver(sending, receiving);
    std::vector<std::string> texts;
    std::vector<Outgoing> damaged;
    texts.reserve(sending.size());
    for (const Outgoing& one : sending) {
      const std::string text(reinterpret_cast<const char*>(one.bytes.data()), one.bytes.size());
      texts.push_back(Damaged(text, damage_));
      damaged.push_back({one.to, std::as_bytes(std::span(texts.back()))});
    }
    return ranks_.Deliver(damaged, receiving);
  }
  void AskToStop() override { ranks_.AskToStop(); }
  bool IsAskedToStop() override { return ranks_.IsAskedToStop(); }

  bool has_damaged() const { return left_ < 0; }

 private:
  bool IsItsTurn() { return left_-- == 0; }

  Communicator& ranks_;
  int left_;
  const Damage damage_;
};

// The result of a rank, as text, or the error.
using Compiling = std::function<llvm::Expected<std::string>(Communicator&)>;

constexpr int kRanks = 3;

// By rank; whether anything was damaged.
bool Run(const Compiling& compile, int speaker, int nth, Damage damage, std::vector<std::string>& ends,
         std::vector<std::string>& errors) {
  ends.assign(kRanks, "");
  errors.assign(kRanks, "");
  bool has_damaged = false;
  OnRanks(kRanks, [&](Communicator& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    DamagedTalk talk(ranks, ranks.rank() == speaker ? nth : 1'000'000, damage);
    llvm::Expected<std::string> end = compile(talk);
    if (end) {
      ends[rank] = *end;
    } else {
      errors[rank] = TakeFailure(end.takeError()).message;
    }
    if (ranks.rank() == speaker) has_damaged = talk.has_damaged();
  });
  return has_damaged;
}

// The least number of messages whose damage is noticed.
void ExpectOneEnd(const Compiling& compile, int least_noticed) {
  std::vector<std::string> right;
  std::vector<std::string> errors;
  Run(compile, 0, 1'000'000, Damage::kCut, right, errors);
  ASSERT_THAT(errors, Each(""));
  int noticed = 0;
  for (int speaker : {0, 1}) {
    for (Damage damage : {Damage::kInverted, Damage::kCut}) {
      std::vector<std::string> ends;
      for (int nth = 0; Run(compile, speaker, nth, damage, ends, errors); ++nth) {
        const std::string where = fmt::format("rank {}, {}: {}", speaker, nth, errors[0]);
        ASSERT_THAT(errors, Each(errors[0])) << where;
        ASSERT_THAT(errors[0], Not(HasSubstr("is gone"))) << where;
        if (errors[0].empty()) {
          ASSERT_TRUE(ends == right) << where;
        } else {
          ++noticed;
        }
      }
    }
  }
  EXPECT_GE(noticed, least_noticed);
}

TEST(DamagedTalkTest, WhilePlanningTheLoadOfAJob) {
  LoadRequest request;
  request.compile.source.path = testing::FixtureRoot("zero1_dp4");
  request.compile.target = "deepspeed:dp=3,zero=1";
  request.opens = {"mp_rank_00_model_states.pt"};
  ExpectOneEnd(
      [&](Communicator& ranks) -> llvm::Expected<std::string> {
        UCP_ASSIGN_OR_RETURN(const LoadPlan load, CompileLoad(RealFileSystem(), request, ranks));
        return EncodePlan(load.plan);
      },
      10);
}

TEST(DamagedTalkTest, WhilePlanningALoadIntoTensors) {
  JobLoadRequest request;
  request.source.path = testing::FixtureRoot("zero1_dp4");
  request.all_tensors = false;
  ExpectOneEnd(
      [&](Communicator& ranks) -> llvm::Expected<std::string> {
        const std::int64_t begin = ranks.rank() * 16;
        const JobTensorsOfRank mine = {
            {"blocks.0.up.weight", "weight", DType::kFloat32, {50, 33}, {{{begin, begin + 18}}, {{0, 33}}}}};
        UCP_ASSIGN_OR_RETURN(const JobLoadPlan plan, CompileForJob(RealFileSystem(), request, mine, ranks));
        return EncodePlan(plan.load.plan);
      },
      10);
}

// The results of reading and checking come together at the first rank. Nobody sees whether elements are right that one
// rank read for another.
TEST(DamagedTalkTest, WhileLoading) {
  SmallConversion conversion({{"a", {6, 4}}, {"b", {8}}});
  conversion.AddSource({});
  conversion.AddSource({}, ReadRole::kCheckRounding, "weight_");
  conversion.SetTarget({});
  conversion.Finish();
  const SmallLoad small(std::move(conversion));
  ExpectOneEnd(
      [&](Communicator& ranks) -> llvm::Expected<std::string> {
        LoadedRecords loaded(small.load.plan, small.records);
        LoadOptions options;
        options.check_source = true;
        options.ranks = &ranks;
        UCP_RETURN_IF_ERROR(Load(small.load, RealFileSystem(), loaded.wanted(), options).takeError());
        return "";
      },
      4);
}

}  // namespace
}  // namespace ucp
