// A writer and its ranks in one process: each rank speaks for itself over its socket, as a client does.
#include "runtime/save/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/save/save_messages.h"
#include "runtime/save/segment.h"
#include "runtime/storage/forwarding_file_system.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Folders appear at their places when they may.
class HeldFiles : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  llvm::Error Rename(const std::string& from, const std::string& to) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !is_held_; });
    if (std::exchange(fails_, false)) return Fail(ErrorCode::kIo, "the disk is gone");
    return ForwardingFileSystem::Rename(from, to);
  }
  void Hold() {
    std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  void Release(bool fails = false) {
    std::lock_guard lock(mutex_);
    is_held_ = false;
    fails_ = fails;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
  bool fails_ = false;  // The next one.
};

class WriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("ucp-writer-test-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    llvm::Expected<Listener> listener = Listen();
    ASSERT_TRUE(static_cast<bool>(listener));
    address_ = listener->address;
    writer_ = std::thread([this, socket = std::make_shared<Descriptor>(std::move(listener->socket))] {
      llvm::consumeError(ServeRanks(files_, std::move(*socket)).takeError());
    });
  }
  void TearDown() override {
    files_.Release();
    ranks_.clear();  // Closed: the writer ends.
    writer_.join();
    fs::remove_all(folder_);
  }

  // Two ranks with two rows each of a tensor of four.
  void Join(double timeout = 30, std::uint64_t rooms = 1, bool finishes_orphans = true) {
    for (int rank = 0; rank < 2; ++rank) {
      JoinMessage join;
      join.rank = rank;
      join.ranks = 2;
      join.settings.request.target = "safetensors";
      join.settings.timeout_seconds = timeout;
      join.settings.rooms = rooms;
      join.settings.finishes_orphans = finishes_orphans;
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
      llvm::Expected<Segment> segment = Segment::Open(message.file.Release(), layout->segment_bytes, rooms);
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
  void Stage(int rank, std::uint64_t number, float value, std::size_t room = 0) {
    const std::vector<float> values(4, value);
    std::memcpy(segments_[static_cast<std::size_t>(rank)].room(room).data(), values.data(), 16);
    ASSERT_FALSE(static_cast<bool>(ranks_[static_cast<std::size_t>(rank)].Send(
        static_cast<std::uint64_t>(SaveMessageKind::kStaged), Encode(StagedMessage{number, {}}))));
  }
  // Both ranks, until all have staged.
  void CallAndStage(std::uint64_t number, const std::string& path, float value, std::size_t room) {
    for (int rank = 0; rank < 2; ++rank) Call(rank, number, path);
    for (int rank = 0; rank < 2; ++rank) ExpectBegin(rank, number, room);
    for (int rank = 0; rank < 2; ++rank) Stage(rank, number, value, room);
  }
  void ExpectBegin(int rank, std::uint64_t number, std::size_t room) {
    const SocketMessage message = Next(ranks_[static_cast<std::size_t>(rank)], SaveMessageKind::kBegin);
    llvm::Expected<BeginMessage> begin = DecodeBegin(message.bytes);
    ASSERT_TRUE(static_cast<bool>(begin));
    EXPECT_EQ(begin->number, number);
    EXPECT_EQ(begin->room, room);
  }
  void ExpectDone(std::uint64_t number) {
    for (MessageSocket& rank : ranks_) {
      llvm::Expected<DoneMessage> done = DecodeDone(Next(rank, SaveMessageKind::kDone).bytes);
      ASSERT_TRUE(static_cast<bool>(done));
      EXPECT_EQ(done->number, number);
    }
  }
  void ExpectSilence(int rank) {
    MessageSocket& socket = ranks_[static_cast<std::size_t>(rank)];
    pollfd wait{socket.descriptor(), POLLIN, 0};
    EXPECT_EQ(::poll(&wait, 1, 200), 0);
  }
  // The job has ended: waits for what the writer makes of it.
  void WaitForWriter() {
    for (MessageSocket& rank : ranks_) rank.Close();
    files_.Release();
    writer_.join();
    writer_ = std::thread([] {});
  }
  // All elements of a checkpoint, which are equal.
  float ValueIn(const std::string& name) const {
    std::ifstream file(Path(name) + "/model.safetensors", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::array<float, 8> values{};
    EXPECT_GT(bytes.size(), sizeof values);
    if (bytes.size() > sizeof values) std::memcpy(values.data(), bytes.data() + bytes.size() - sizeof values, 32);
    for (const float value : values) EXPECT_EQ(value, values.front());
    return values.front();
  }
  std::string Path(const std::string& name) const { return folder_ / name; }

  HeldFiles files_{RealFileSystem()};
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
  WaitForWriter();
  EXPECT_TRUE(fs::exists(Path("a") + "/model.safetensors"));
}

TEST_F(WriterTest, WithOneRoomTheNextSaveWaitsUntilOneIsWritten) {
  Join();
  files_.Hold();
  CallAndStage(1, Path("a"), 1, 0);
  for (int rank = 0; rank < 2; ++rank) Call(rank, 2, Path("b"));
  ExpectSilence(0);
  files_.Release();
  ExpectDone(1);
  ExpectBegin(0, 2, 0);
}

TEST_F(WriterTest, WithTwoRoomsTheNextSaveIsStagedWhileOneIsWritten) {
  Join(30, 2);
  files_.Hold();
  CallAndStage(1, Path("a"), 1, 0);
  CallAndStage(2, Path("b"), 2, 1);
  ExpectSilence(0);
  files_.Release();
  ExpectDone(1);
  CallAndStage(3, Path("c"), 3, 0);
  ExpectDone(2);
  ExpectDone(3);
  EXPECT_EQ(ValueIn("a"), 1);
  EXPECT_EQ(ValueIn("b"), 2);
  EXPECT_EQ(ValueIn("c"), 3);
}

TEST_F(WriterTest, ASaveThatFailsDoesNotChangeTheNext) {
  Join(30, 2);
  files_.Hold();
  CallAndStage(1, Path("a"), 1, 0);
  CallAndStage(2, Path("b"), 2, 1);
  files_.Release(/*fails=*/true);
  for (int rank = 0; rank < 2; ++rank) EXPECT_THAT(FailureOf(rank), HasSubstr("the disk is gone"));
  ExpectDone(2);
  EXPECT_FALSE(fs::exists(Path("a")));
  EXPECT_EQ(ValueIn("b"), 2);
}

TEST_F(WriterTest, ARankThatEndsBeforeItHasStagedFailsOnlyThatSave) {
  Join(30, 2);
  files_.Hold();
  CallAndStage(1, Path("a"), 1, 0);
  for (int rank = 0; rank < 2; ++rank) Call(rank, 2, Path("b"));
  for (int rank = 0; rank < 2; ++rank) ExpectBegin(rank, 2, 1);
  Stage(0, 2, 2, 1);
  ranks_[1].Close();
  EXPECT_EQ(FailureOf(0), "rank 1 of 2 does not take part: its process has ended");
  files_.Release();
  Next(ranks_[0], SaveMessageKind::kDone);
  EXPECT_EQ(ValueIn("a"), 1);
  EXPECT_FALSE(fs::exists(Path("b")));
}

TEST_F(WriterTest, AJobThatEndsLeavesBothThatItHasStaged) {
  Join(30, 2);
  files_.Hold();
  CallAndStage(1, Path("a"), 1, 0);
  CallAndStage(2, Path("b"), 2, 1);
  WaitForWriter();
  EXPECT_EQ(ValueIn("a"), 1);
  EXPECT_EQ(ValueIn("b"), 2);
}

TEST_F(WriterTest, AJobThatEndsLeavesNoneIfThatIsWanted) {
  Join(30, 2, /*finishes_orphans=*/false);
  files_.Hold();
  CallAndStage(1, Path("a"), 1, 0);
  CallAndStage(2, Path("b"), 2, 1);
  WaitForWriter();
  EXPECT_FALSE(fs::exists(Path("b")));
}

}  // namespace
}  // namespace ucp
