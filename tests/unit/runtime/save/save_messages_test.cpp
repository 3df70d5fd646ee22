// The messages of ranks and writer, as bytes.
#include "runtime/save/save_messages.h"

#include <gtest/gtest.h>

#include <limits>

namespace ucp {
namespace {

SaverSettings Settings() {
  SaverSettings settings;
  settings.request.target = "dcp:style=titan";
  settings.request.source.spec = "llama";
  settings.request.source.set = {"layers=4"};
  settings.request.settings.keep_opaque = {"a.B"};
  settings.threads = 3;
  settings.keep = 2;
  settings.timeout_seconds = 1.5;
  settings.nice = 7;
  settings.verifies_replicas = true;
  settings.finishes_orphans = false;
  settings.lock_file = "/memory/job/writers";
  settings.rooms = 2;
  settings.staging_bytes = 12345;
  return settings;
}

template <typename Message, typename Decode>
void ExpectNoPrefix(const Message& message, Decode decode) {
  const std::string bytes = Encode(message);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    auto read = decode(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(static_cast<bool>(read)) << size;
    llvm::consumeError(read.takeError());
  }
}

TEST(SaveMessagesTest, Join) {
  const JoinMessage message{1,
                            4,
                            Settings(),
                            {{"w", {"w"}, true, DType::kInt8, {2}, {{{0}, {2}}}}},
                            "values",
                            77,
                            {{{nullptr, 4, {2}, {1}}}},
                            {"/a/b"},
                            "no memory",
                            {1, 3, {"4000 10.0.0.1", "4001 10.0.0.2 fd00::2"}, std::string("\0secret", 7)},
                            true};
  llvm::Expected<JoinMessage> read = DecodeJoin(Encode(message));
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(read->rank, 1);
  EXPECT_EQ(read->ranks, 4);
  EXPECT_EQ(Encode(read->settings), Encode(Settings()));
  EXPECT_EQ(read->settings.request.target, "dcp:style=titan");
  EXPECT_EQ(read->settings.timeout_seconds, 1.5);
  EXPECT_TRUE(read->settings.verifies_replicas);
  EXPECT_FALSE(read->settings.finishes_orphans);
  EXPECT_EQ(read->settings.lock_file, "/memory/job/writers");
  EXPECT_EQ(read->settings.rooms, 2U);
  EXPECT_EQ(read->settings.staging_bytes, 12345U);
  EXPECT_EQ(read->state, message.state);
  EXPECT_EQ(read->values, "values");
  EXPECT_EQ(read->abandoned, std::vector<std::string>{"/a/b"});
  EXPECT_EQ(read->problem, "no memory");
  EXPECT_EQ(read->machines.machine, 1);
  EXPECT_EQ(read->machines.ranks_here, 3);
  EXPECT_EQ(read->machines.addresses, message.machines.addresses);
  EXPECT_EQ(read->machines.secret, message.machines.secret);
  EXPECT_TRUE(read->comes_with_all);
  ExpectNoPrefix(message, DecodeJoin);
}

TEST(SaveMessagesTest, ARankThatTheJobHasNot) {
  llvm::Expected<JoinMessage> read = DecodeJoin(Encode(JoinMessage{4, 4, {}, {}, {}, 0, {}, {}, {}, {}, false}));
  ASSERT_FALSE(static_cast<bool>(read));
  llvm::consumeError(read.takeError());
}

TEST(SaveMessagesTest, Write) {
  const WriteMessage message{"/a/b", true};
  llvm::Expected<WriteMessage> read = DecodeWrite(Encode(message));
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(read->path, "/a/b");
  EXPECT_TRUE(read->force);
  ExpectNoPrefix(message, DecodeWrite);
}

TEST(SaveMessagesTest, LaidOut) {
  LaidOutMessage message{{{1, 2, 64, 8}}, {3}, 128, "{}", {{4, 5}}};
  message.waves = {3, 64};
  llvm::Expected<LaidOutMessage> read = DecodeLaidOut(Encode(message));
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(read->boxes, message.boxes);
  EXPECT_EQ(read->values, message.values);
  EXPECT_EQ(read->segment_bytes, 128U);
  EXPECT_EQ(read->plan, "{}");
  EXPECT_EQ(read->replicas, message.replicas);
  EXPECT_EQ(read->waves.count, 3U);
  EXPECT_EQ(read->waves.window, 64U);
  ExpectNoPrefix(message, DecodeLaidOut);
}

TEST(SaveMessagesTest, WavesThatNoFileHas) {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const StagingWaves& waves :
       {StagingWaves{0, 0}, StagingWaves{1, 64}, StagingWaves{2, 0}, StagingWaves{2, most}}) {
    LaidOutMessage message;
    message.waves = waves;
    llvm::Expected<LaidOutMessage> read = DecodeLaidOut(Encode(message));
    ASSERT_FALSE(static_cast<bool>(read)) << waves.count << " of " << waves.window;
    EXPECT_EQ(TakeFailure(read.takeError()).message, "a message between a rank and the writer is damaged");
  }
}

TEST(SaveMessagesTest, SaveDoneAndFailed) {
  SaveMessage save{
      5, "/out/step-5", "step-5", true, "values", "a problem", {}, true, {{"w", {"w"}, false, {}, {}, {}}}};
  llvm::Expected<SaveMessage> read = DecodeSave(Encode(save));
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(read->number, 5U);
  EXPECT_EQ(read->path, save.path);
  EXPECT_EQ(read->tag, save.tag);
  EXPECT_TRUE(read->force);
  EXPECT_EQ(read->problem, "a problem");
  EXPECT_EQ(read->state, save.state);
  ExpectNoPrefix(save, DecodeSave);
  save.has_state = false;
  EXPECT_TRUE(DecodeSave(Encode(save))->state.empty());
  const StagedMessage staged{9, {{1, 2, 3, 4}, {5, 6, 7, 8}}};
  EXPECT_EQ(DecodeStaged(Encode(staged))->digests, staged.digests);
  ExpectNoPrefix(staged, DecodeStaged);
  EXPECT_EQ(DecodeDone(Encode(DoneMessage{6, "{}"}))->report, "{}");
  llvm::Expected<FailedMessage> failed = DecodeFailed(Encode(FailedMessage{7, ErrorCode::kMemory, "no room"}));
  ASSERT_TRUE(static_cast<bool>(failed));
  EXPECT_EQ(failed->code, ErrorCode::kMemory);
  EXPECT_EQ(failed->message, "no room");
  EXPECT_EQ(*DecodeNumber(EncodeNumber(8)), 8U);
  const BeginMessage begin{7, 1, 5};
  EXPECT_EQ(DecodeBegin(Encode(begin))->number, 7U);
  EXPECT_EQ(DecodeBegin(Encode(begin))->room, 1U);
  EXPECT_EQ(DecodeBegin(Encode(begin))->wave, 5U);
  ExpectNoPrefix(begin, DecodeBegin);
  const WriteMessage write{"/out/step-5", true, 1};
  EXPECT_EQ(DecodeWrite(Encode(write))->path, "/out/step-5");
  EXPECT_EQ(DecodeWrite(Encode(write))->room, 1U);
  ExpectNoPrefix(write, DecodeWrite);
}

TEST(SaveMessagesTest, RoomsThatNoSegmentHas) {
  llvm::Expected<BeginMessage> begin = DecodeBegin(Encode(BeginMessage{7, 2}));
  EXPECT_EQ(TakeFailure(begin.takeError()).message, "a message between a rank and the writer is damaged");
  llvm::Expected<WriteMessage> write = DecodeWrite(Encode(WriteMessage{"/out", false, 2}));
  EXPECT_EQ(TakeFailure(write.takeError()).message, "a message between a rank and the writer is damaged");
  JoinMessage join;
  join.settings.rooms = 3;
  llvm::Expected<JoinMessage> joined = DecodeJoin(Encode(join));
  EXPECT_EQ(TakeFailure(joined.takeError()).message, "a message between a rank and the writer is damaged");
}

}  // namespace
}  // namespace ucp
