// G6 of the guarantees of the design, and I1 to I4 and J1 to J4 of the commit protocol: a whole conversion is recorded,
// and the power goes after each of its changes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "compiler/support/error.h"
#include "runtime/convert/conversion.h"
#include "tests/unit/runtime/comm/thread_ranks.h"
#include "tests/unit/runtime/convert/recorded_files.h"
#include "tests/unit/runtime/executor/small_conversion.h"

namespace ucp {
namespace {

using Files = std::map<std::string, std::string>;

const char* const kParent = "/data";
const char* const kOut = "/data/out";
const Files kOld = {{"model.safetensors", "old"}, {"zero/old.pt", "old"}};

class PowerCutTest : public testing::Test {
 protected:
  PowerCutTest() : PowerCutTest(SmallConversion({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}})) {}
  explicit PowerCutTest(SmallConversion small) : small_(std::move(small)) {
    small_.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
    small_.AddSource({}, ReadRole::kCheckRounding, "weight_");
    small_.SetTarget({.tp = 2, .dp = 2});
    // A file without elements; by its name, what is written is a checkpoint that --force replaces.
    Plan& plan = small_.plan();
    FileId file = plan.target.Add(StoredFile{"model.safetensors", 3, ""});
    plan.blobs.emplace_back("new");
    plan.placements.push_back({file, 0, BlobId(plan.blobs.size() - 1)});
    small_.Finish();
  }

  void Prepare(RecordedFiles& files, bool has_old) {
    for (const auto& [path, content] : small_.source_contents()) files.Put("/data/source/" + path, content);
    if (has_old) {
      for (const auto& [path, content] : kOld) files.Put(JoinPath(kOut, path), content);
    }
  }

  // On as many ranks as a test of several picks. The error's message, or nothing; and how many bytes an earlier run had
  // written.
  std::string Run(FileSystem& files, bool force, bool resume, std::uint64_t* before = nullptr) {
    std::string message;
    OnRanks(Pick(1, most_ranks_), [&](Communicator& ranks) {
      std::string mine = RunRank(files, force, resume, before, ranks);
      if (ranks.rank() == 0) message = std::move(mine);
    });
    return message;
  }

  std::string RunRank(FileSystem& files, bool force, bool resume, std::uint64_t* before, Communicator& ranks) {
    ConversionOptions options;
    options.destination = kOut;
    options.force = force;
    options.resume = resume;
    options.journal_seconds = 0;
    ExecutionOptions execution;
    execution.threads = 1;
    execution.ranks = &ranks;
    llvm::Expected<ConversionOutcome> outcome =
        ucp::Convert(files, {small_.plan(), "/data/source"}, options, execution, {});
    if (!outcome) return TakeFailure(outcome.takeError()).message;
    if (before != nullptr && ranks.rank() == 0) *before = outcome->report.bytes_done_before;
    return "";
  }

  // The content of the destination: what was there before, or all that is to be there.
  void ExpectOldOrComplete(RecordedFiles& files, bool force, const Files& complete, const std::string& where) {
    const Files seen = files.FilesUnder(kOut);
    const Files old = files.FilesUnder("/data/.out.ucp-old");
    const bool is_set_aside = !files.can_exchange && seen.empty() && (old == kOld || old == complete);
    ASSERT_TRUE(seen == complete || seen == (force ? kOld : Files()) || is_set_aside) << where;
  }

  // One more run: all is there, and nothing else.
  void ExpectFinished(RecordedFiles& files, bool force, bool resume, const Files& complete, const std::string& where,
                      int* went_on) {
    std::uint64_t before = 0;
    const bool resumes = resume || (!force && files.FilesUnder(kOut) == complete);
    ASSERT_EQ(Run(files, force, resumes, &before), "") << where;
    if (before > 0) ++*went_on;
    ASSERT_EQ(files.FilesUnder(kOut), complete) << where;
    std::vector<std::string> names;
    for (const DirectoryEntry& entry : llvm::cantFail(files.List(kParent))) names.push_back(entry.name);
    ASSERT_THAT(names, testing::ElementsAre("out", "source")) << where;
  }

  // Runs a conversion that nothing happens to; what it wrote.
  Files Convert(RecordedFiles& files, bool force) {
    Prepare(files, force);
    EXPECT_EQ(Run(files, force, false), "");
    return files.FilesUnder(kOut);
  }

  // A fate for each change: the same for all (0 to 2), or by chance.
  std::function<Fate(std::size_t)> FateOf(int kind) {
    if (kind < 3) return [kind](std::size_t) { return static_cast<Fate>(kind); };
    return [this](std::size_t) { return static_cast<Fate>(Pick(0, 2)); };
  }
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  // The abilities of the file system.
  struct Abilities {
    bool exchange = true;
    bool sync_whole = false;
    bool inodes_last = true;

    void GiveTo(RecordedFiles& files) const {
      files.can_exchange = exchange;
      files.can_sync_whole = sync_whole;
      files.inodes_last = inodes_last;
    }
  };
  void CutEverywhere(bool force, Abilities abilities);
  void KillAndCut(bool force, Abilities abilities);
  void CutCleanUp(bool force, Abilities abilities);
  void CutNextRun(Abilities abilities);

  SmallConversion small_;
  std::mt19937 random_{20261121};
  int most_ranks_ = 1;
  int rounds_ = 400;
  int first_fate_ = 0;
  int least_gone_on_ = 200;
};

// Each of the target's files is one chunk, so it is made when that is written, and its name also comes late.
class PowerCutOfSmallFilesTest : public PowerCutTest {
 protected:
  PowerCutOfSmallFilesTest() : PowerCutTest(SmallConversion({{"a", {64, 4}}}, {"fp32"})) {}
};

// After each change, and with several fates of what was not synced.
void PowerCutTest::CutEverywhere(bool force, Abilities abilities) {
  RecordedFiles files;
  abilities.GiveTo(files);
  const Files complete = Convert(files, force);
  ASSERT_EQ(complete.size(), small_.plan().target.files.size() + 1);
  for (const auto& [path, content] : small_.ExpectedFiles()) ASSERT_EQ(complete.at(path), content) << path;
  int went_on = 0;
  for (std::size_t changes = 0; changes <= files.changes(); ++changes) {
    for (int kind = first_fate_; kind < 8; ++kind) {
      std::unique_ptr<RecordedFiles> left = files.AfterPowerCut(changes, FateOf(kind));
      const std::string where = fmt::format("after {} of {} changes, fates {}", changes, files.changes(), kind);
      ExpectOldOrComplete(*left, force, complete, where);
      ExpectFinished(*left, force, kind < 7, complete, where, &went_on);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(went_on, least_gone_on_);
}

// A process is killed, another one begins with what it left, none of which is durable, and then the power goes.
void PowerCutTest::KillAndCut(bool force, Abilities abilities) {
  RecordedFiles whole;
  abilities.GiveTo(whole);
  const Files complete = Convert(whole, force);
  int went_on = 0;
  for (int round = 0; round < rounds_; ++round) {
    RecordedFiles files;
    abilities.GiveTo(files);
    Prepare(files, force);
    // The commit has few changes of many, and every second kill.
    const int last = static_cast<int>(whole.changes());
    const int kill = Pick(round % 2 == 0 ? 0 : last - 30, last);
    files.KillAfter(static_cast<std::size_t>(kill));
    (void)Run(files, force, false);
    files.Revive();
    ExpectOldOrComplete(files, force, complete, fmt::format("killed after {} changes", kill));
    const std::size_t before = files.changes();
    const bool resume = round % 4 < 2;
    ExpectFinished(files, force, resume, complete, fmt::format("killed after {} changes", kill), &went_on);
    for (int cut = 0; cut < 10 && !HasFatalFailure(); ++cut) {
      const int changes = Pick(static_cast<int>(before), static_cast<int>(files.changes()));
      const std::string where = fmt::format("round {}: killed after {} changes, cut after {}", round, kill, changes);
      std::unique_ptr<RecordedFiles> left = files.AfterPowerCut(static_cast<std::size_t>(changes), FateOf(cut % 5));
      ExpectOldOrComplete(*left, force, complete, where);
      ExpectFinished(*left, force, cut < 9, complete, where, &went_on);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(went_on, least_gone_on_);
}

// The same, and the power goes after each of the changes by which the second process puts in order what it found.
void PowerCutTest::CutCleanUp(bool force, Abilities abilities) {
  RecordedFiles whole;
  abilities.GiveTo(whole);
  const Files complete = Convert(whole, force);
  int went_on = 0;
  for (std::size_t kill = 0; kill < whole.changes(); kill += std::size_t{kill + 16 < whole.changes() ? 7U : 1U}) {
    RecordedFiles files;
    abilities.GiveTo(files);
    Prepare(files, force);
    files.KillAfter(kill);
    (void)Run(files, force, false);
    files.Revive();
    const std::size_t before = files.changes();
    ExpectFinished(files, force, false, complete, fmt::format("killed after {} changes", kill), &went_on);
    constexpr std::size_t kOfCleanUp = 45;  // And the first entry of the journal.
    for (std::size_t changes = before; changes <= std::min(files.changes(), before + kOfCleanUp); ++changes) {
      for (int kind = 1; kind < 6; kind += 1 + (kind == 1)) {
        const std::string where = fmt::format("killed after {} changes, cut after {}, fates {}", kill, changes, kind);
        std::unique_ptr<RecordedFiles> left = files.AfterPowerCut(changes, FateOf(kind));
        ExpectOldOrComplete(*left, force, complete, where);
        ExpectFinished(*left, force, true, complete, where, &went_on);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(went_on, 100);
}

// A run ended, and nothing was synced since it removed its journal; the power goes after each of the first changes of
// the next one. So the journal may be back beside a folder that it says nothing of.
void PowerCutTest::CutNextRun(Abilities abilities) {
  RecordedFiles files;
  abilities.GiveTo(files);
  const Files complete = Convert(files, false);
  const std::size_t before = files.changes();
  ASSERT_EQ(Run(files, true, false), "");
  constexpr std::size_t kOfNext = 45;  // And the first entry of its journal.
  ASSERT_GT(files.changes(), before + kOfNext);
  int went_on = 0;
  for (std::size_t changes = before; changes <= before + kOfNext; ++changes) {
    for (int kind = 0; kind < 40; ++kind) {
      const std::string where = fmt::format("cut {} changes after the first run, fates {}", changes - before, kind);
      std::unique_ptr<RecordedFiles> left = files.AfterPowerCut(changes, FateOf(kind));
      ASSERT_EQ(left->FilesUnder(kOut), complete) << where;
      ExpectFinished(*left, true, true, complete, where, &went_on);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(PowerCutTest, WithoutADestination) { CutEverywhere(false, {}); }
TEST_F(PowerCutTest, WithAnOldDestination) { CutEverywhere(true, {}); }
TEST_F(PowerCutTest, WithAnOldDestinationWhereNothingCanBeExchanged) { CutEverywhere(true, {.exchange = false}); }
TEST_F(PowerCutTest, WithoutADestinationSyncedAsAWhole) { CutEverywhere(false, {.sync_whole = true}); }
TEST_F(PowerCutTest, WithAnOldDestinationSyncedAsAWhole) { CutEverywhere(true, {.sync_whole = true}); }

TEST_F(PowerCutTest, WithAnOldDestinationWhereInodesDoNotLast) { CutEverywhere(true, {.inodes_last = false}); }

TEST_F(PowerCutOfSmallFilesTest, WithAnOldDestination) { CutEverywhere(true, {}); }
TEST_F(PowerCutOfSmallFilesTest, KilledBefore) { KillAndCut(true, {}); }
TEST_F(PowerCutOfSmallFilesTest, KilledBeforeAndSyncedAsAWhole) { KillAndCut(true, {.sync_whole = true}); }

TEST_F(PowerCutTest, KilledBeforeWithoutADestination) { KillAndCut(false, {}); }
TEST_F(PowerCutTest, KilledBeforeWithAnOldDestination) { KillAndCut(true, {}); }
TEST_F(PowerCutTest, KilledBeforeWhereNothingCanBeExchanged) { KillAndCut(true, {.exchange = false}); }
TEST_F(PowerCutTest, KilledBeforeAndSyncedAsAWhole) { KillAndCut(true, {.sync_whole = true}); }

TEST_F(PowerCutTest, KilledBeforeWhereInodesDoNotLast) { KillAndCut(true, {.inodes_last = false}); }
TEST_F(PowerCutTest, KilledBeforeWhereNeitherInodesLastNorFoldersAreExchanged) {
  KillAndCut(true, {.exchange = false, .inodes_last = false});
}

TEST_F(PowerCutTest, CutWhileItCleansUpWithoutADestination) { CutCleanUp(false, {}); }
TEST_F(PowerCutTest, CutWhileItCleansUpWithAnOldDestination) { CutCleanUp(true, {}); }
TEST_F(PowerCutTest, CutWhileItCleansUpWhereNothingCanBeExchanged) { CutCleanUp(true, {.exchange = false}); }

TEST_F(PowerCutTest, CutAtTheBeginningOfTheNextRun) { CutNextRun({}); }
TEST_F(PowerCutTest, CutAtTheBeginningOfTheNextRunWhereInodesDoNotLast) { CutNextRun({.inodes_last = false}); }

class PowerCutOfRanksTest : public PowerCutTest {
 protected:
  PowerCutOfRanksTest() {
    most_ranks_ = 3;
    rounds_ = 40;  // Its threads take their time.
    first_fate_ = 6;
    least_gone_on_ = 50;
  }
};

TEST_F(PowerCutOfRanksTest, WithoutADestination) { CutEverywhere(false, {}); }
TEST_F(PowerCutOfRanksTest, KilledBeforeWithAnOldDestination) { KillAndCut(true, {}); }

}  // namespace
}  // namespace ucp
