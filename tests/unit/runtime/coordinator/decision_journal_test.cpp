#include "runtime/coordinator/decision_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

class DecisionJournalTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string Content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& content) const { std::ofstream(path_, std::ios::binary) << content; }
  std::vector<CoordinatorEntry> Entries() const {
    auto journal = llvm::cantFail(DecisionJournal::Open(path_));
    return journal.TakeEntries();
  }
  std::string Refusal() const {
    llvm::Expected<DecisionJournal> journal = DecisionJournal::Open(path_);
    return journal ? "" : TakeFailure(journal.takeError()).message;
  }
  void WriteThree() const {
    auto journal = llvm::cantFail(DecisionJournal::Open(path_));
    for (const std::int64_t epoch : {1, 2, 3}) {
      llvm::cantFail(journal.Append({{.time = 5, .event = "epoch", .task = "t\n\"", .epoch = epoch, .nodes = {"a"}}}));
    }
  }

  std::string path_ = (std::filesystem::temp_directory_path() / ("ucp-journal-" + std::to_string(::getpid()))).string();
};

TEST_F(DecisionJournalTest, EveryFieldComesBack) {
  const CoordinatorEntry entry{.time = 12.5,
                               .event = "failure",
                               .task = "t",
                               .node = "n\xe2\x80\xae",
                               .epoch = 7,
                               .failure = "hang",
                               .severity = 2,
                               .step = 0,
                               .iterations = 9,
                               .is_of_answer = true,
                               .answer = "restart",
                               .reason = "why"};
  {
    auto journal = llvm::cantFail(DecisionJournal::Open(path_));
    llvm::cantFail(journal.Append({entry}));
  }
  const std::vector<CoordinatorEntry> entries = Entries();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(JsonOf(entries[0]), JsonOf(entry));
}

TEST_F(DecisionJournalTest, ATornEndCountsForNothing) {
  WriteThree();
  const std::string whole = Content();
  const std::size_t third = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t size = third; size < whole.size(); ++size) {
    Write(whole.substr(0, size));
    EXPECT_EQ(Entries().size(), 2U) << size;
    EXPECT_EQ(Content().size(), third);
  }
}

TEST_F(DecisionJournalTest, DamageBeforeTheEndIsNamed) {
  WriteThree();
  std::string content = Content();
  content[20] ^= 1;
  Write(content);
  EXPECT_THAT(Refusal(), HasSubstr("line 1 is damaged: its checksum is "));
}

TEST_F(DecisionJournalTest, AnotherFileStaysAsItIs) {
  for (const std::string content : {"import torch\n", "import torch", "one\ntwo\n"}) {
    Write(content);
    EXPECT_NE(Refusal(), "");
    EXPECT_EQ(Content(), content);
  }
}

TEST_F(DecisionJournalTest, TwoCoordinatorsCannotHaveIt) {
  const auto journal = llvm::cantFail(DecisionJournal::Open(path_));
  EXPECT_THAT(Refusal(), HasSubstr("is the journal of another coordinator, which still runs"));
}

}  // namespace
}  // namespace ucp
