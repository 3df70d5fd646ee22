// A writer and its ranks in one process: each rank speaks for itself over its socket, as a client does.
#include "runtime/save/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "compiler/support/error.h"
#include "runtime/save/save_messages.h"
#include "runtime/save/segment.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class WriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("ucp-writer-test-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    llvm::Expected<Listener> listener = Listen();
    ASSERT_TRUE(static_cast<bool>(listener));
    address_ = listener->address;
    writer_ = std::thread([socket = std::make_shared<Descriptor>(std::move(listener->socket))] {
      llvm::consumeError(ServeRanks(RealFileSystem(), std::move(*socket)).takeError());
    });
  }
  void TearDown() override {
    ranks_.clear();  // Closed: the writer ends.
    writer_.join();
    fs::remove_all(folder_);
  }

  // Two ranks with two rows each of a tensor of four.
  void Join(double timeout = 30) {
    for (int rank = 0; rank < 2; ++rank) {
      JoinMessage join;
      join.rank = rank;
      join.ranks = 2;
      join.settings.request.target = "safetensors";
      join.settings.timeout_seconds = timeout;
      join.state = {
          {"model.w", {"model", "w"}, true, DType::kFloat32, {4, 2}, {{{std::int64_t{2} * rank, 0}, {2, 2}}}}};
      llvm::Expected<MessageSocket> socket = ConnectTo(address_);
      ASSERT_TRUE(static_cast<bool>(socket));
      Next(*socket, SaveMessageKind::kHello);
      ASSERT_FALSE(static_cast<bool>(socket->Send(static_cast<std::uint64_t>(SaveMessageKind::kJoin), Encode(join))));
      ranks_.push_back(std::move(*socket));
    }
    for (MessageSocket& rank : ranks_) {
      SocketMessage message = Next(rank, SaveMessageKind::kLaidOut);
      llvm::Expected<LaidOutMessage> layout = DecodeLaidOut(message.bytes);
      ASSERT_TRUE(static_cast<bool>(layout));
      ASSERT_EQ(layout->boxes.size(), 1U);
      llvm::Expected<Segment> segment = Segment::Open(message.file.Release(), layout->segment_bytes);
      ASSERT_TRUE(static_cast<bool>(segment));
      segments_.push_back(std::move(*segment));
    }
  }

  static SocketMessage Next(MessageSocket& rank, SaveMessageKind kind) {
    llvm::Expected<SocketMessage> message = rank.Receive();
    EXPECT_TRUE(static_cast<bool>(message));
    if (!message) return {};
    EXPECT_EQ(message->kind, static_cast<std::uint64_t>(kind)) << message->bytes;
    return std::move(*message);
  }
  std::string FailureOf(int rank) {
    return DecodeFailed(Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kFailed).bytes)->message;
  }
  void Call(int rank, std::uint64_t number, const std::string& path, const std::string& problem = "") {
    SaveMessage save;
    save.number = number;
    save.path = path;
    save.tag = "tag";
    save.problem = problem;
    ASSERT_FALSE(static_cast<bool>(
        ranks_[static_cast<std::size_t>(rank)].Send(static_cast<std::uint64_t>(SaveMessageKind::kSave), Encode(save))));
  }
  void Stage(int rank, std::uint64_t number, float value) {
    const std::vector<float> values(4, value);
    std::memcpy(segments_[static_cast<std::size_t>(rank)].memory().data(), values.data(), 16);
    ASSERT_FALSE(static_cast<bool>(ranks_[static_cast<std::size_t>(rank)].Send(
        static_cast<std::uint64_t>(SaveMessageKind::kStaged), Encode(StagedMessage{number, {}}))));
  }
  std::string Path(const std::string& name) const { return folder_ / name; }

  fs::path folder_;
  std::string address_;
  std::thread writer_;
  std::vector<MessageSocket> ranks_;
  std::vector<Segment> segments_;
};

TEST_F(WriterTest, ASaveOfTwoRanks) {
  Join();
  for (int rank = 0; rank < 2; ++rank) Call(rank, 1, Path("a"));
  for (int rank = 0; rank < 2; ++rank) Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kBegin);
  for (int rank = 0; rank < 2; ++rank) Stage(rank, 1, static_cast<float>(rank + 1));
  for (int rank = 0; rank < 2; ++rank) Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kDone);
  EXPECT_TRUE(fs::exists(Path("a") + "/model.safetensors"));
}

TEST_F(WriterTest, NobodyStagesBeforeAllHaveCalled) {
  Join();
  Call(0, 1, Path("a"));
  ASSERT_FALSE(static_cast<bool>(ranks_[0].LimitWaiting(0.2)));
  llvm::Expected<SocketMessage> early = ranks_[0].Receive();
  EXPECT_FALSE(static_cast<bool>(early));
  llvm::consumeError(early.takeError());
}

TEST_F(WriterTest, ARankThatDoesNotCome) {
  Join(0.3);
  Call(0, 1, Path("a"));
  EXPECT_EQ(FailureOf(0), "rank 1 of 2 did not call this save within 0.3 s of the others");
  Call(1, 1, Path("a"));  // Too late, and without waiting.
  EXPECT_THAT(FailureOf(1), HasSubstr("rank 1 of 2 did not call"));
  for (int rank = 0; rank < 2; ++rank) Call(rank, 2, Path("b"));
  for (int rank = 0; rank < 2; ++rank) Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kBegin);
}

TEST_F(WriterTest, ARankThatDoesNotStage) {
  Join(0.3);
  for (int rank = 0; rank < 2; ++rank) Call(rank, 1, Path("a"));
  for (int rank = 0; rank < 2; ++rank) Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kBegin);
  Stage(0, 1, 1);
  EXPECT_EQ(FailureOf(0), "rank 1 of 2 did not stage its part within 0.3 s of the others");
  FailureOf(1);
  Stage(1, 1, 1);  // Late: it counts for no save.
  for (int rank = 0; rank < 2; ++rank) Call(rank, 2, Path("b"));
  for (int rank = 0; rank < 2; ++rank) Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kBegin);
  Stage(0, 2, 1);
  EXPECT_FALSE(fs::exists(Path("a")));
}

TEST_F(WriterTest, ARankThatEnds) {
  Join();
  Call(0, 1, Path("a"));
  ranks_[1].Close();
  EXPECT_EQ(FailureOf(0), "rank 1 of 2 does not take part: its process has ended");
  Call(0, 2, Path("b"));
  EXPECT_THAT(FailureOf(0), HasSubstr("rank 1 of 2 does not take part"));
}

TEST_F(WriterTest, OtherPathsAndNumbersAndProblems) {
  Join();
  Call(0, 1, Path("a"));
  Call(1, 1, Path("b"));
  EXPECT_EQ(FailureOf(0), "rank 0 saves to `" + Path("a") + "` and rank 1 to `" + Path("b") + "`");
  FailureOf(1);
  Call(0, 2, Path("c"));
  Call(1, 2, Path("c"), "`x` cannot be pickled");
  EXPECT_EQ(FailureOf(0), "rank 1 of 2: `x` cannot be pickled");
  FailureOf(1);
  EXPECT_TRUE(fs::is_empty(folder_));
}

// One rank has called once too often: the ranks meet again at the next path that both call.
TEST_F(WriterTest, ARankThatCallsOnceTooOften) {
  Join();
  Call(1, 1, Path("extra"));
  Call(0, 1, Path("a"));
  for (int rank = 0; rank < 2; ++rank) FailureOf(rank);
  Call(1, 2, Path("a"));
  FailureOf(1);
  Call(1, 3, Path("b"));
  Call(0, 2, Path("b"));
  for (int rank = 0; rank < 2; ++rank) Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kBegin);
}

TEST_F(WriterTest, ARankThatCannotStage) {
  Join();
  for (int rank = 0; rank < 2; ++rank) Call(rank, 1, Path("a"));
  for (int rank = 0; rank < 2; ++rank) Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kBegin);
  const FailedMessage failed{1, ErrorCode::kIo, "the device is lost"};
  ASSERT_FALSE(static_cast<bool>(ranks_[1].Send(static_cast<std::uint64_t>(SaveMessageKind::kFailed), Encode(failed))));
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(FailureOf(rank), "rank 1 of 2: the device is lost");
}

TEST_F(WriterTest, WhatWasStagedIsWrittenWithoutTheJob) {
  Join();
  for (int rank = 0; rank < 2; ++rank) Call(rank, 1, Path("a"));
  for (int rank = 0; rank < 2; ++rank) Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kBegin);
  for (int rank = 0; rank < 2; ++rank) Stage(rank, 1, 3);
  for (MessageSocket& rank : ranks_) rank.Close();
  writer_.join();
  writer_ = std::thread([] {});
  EXPECT_TRUE(fs::exists(Path("a") + "/model.safetensors"));
}

}  // namespace
}  // namespace ucp
