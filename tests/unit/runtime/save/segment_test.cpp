// Memory that two mappings share, and files in it.
#include "runtime/save/segment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "compiler/support/error.h"
#include "runtime/save/segment_files.h"

namespace ucp {
namespace {

TEST(SegmentTest, TwoMappingsAreOneMemory) {
  llvm::Expected<Segment> made = Segment::Create(10000);
  ASSERT_TRUE(static_cast<bool>(made));
  llvm::Expected<Segment> other = Segment::Open(::dup(made->descriptor()), 10000);
  ASSERT_TRUE(static_cast<bool>(other));
  made->memory()[9999] = std::byte{7};
  EXPECT_EQ(other->memory()[9999], std::byte{7});
  EXPECT_NE(::ftruncate(made->descriptor(), 100), 0);  // It is sealed: no reader is killed by SIGBUS.
}

TEST(SegmentTest, RoomsLieOneBehindTheOther) {
  llvm::Expected<Segment> made = Segment::Create(6400, 2);
  ASSERT_TRUE(static_cast<bool>(made));
  llvm::Expected<Segment> other = Segment::Open(::dup(made->descriptor()), 6400, 2);
  ASSERT_TRUE(static_cast<bool>(other));
  EXPECT_EQ(made->memory().size(), 12800U);
  for (std::size_t room = 0; room < 2; ++room) {
    EXPECT_EQ(made->room(room).data(), made->memory().data() + 6400 * room);
    EXPECT_EQ(made->room(room).size(), 6400U);
    made->room(room)[6399] = std::byte{static_cast<unsigned char>(room + 1)};
  }
  for (std::size_t room = 0; room < 2; ++room) EXPECT_EQ(static_cast<std::size_t>(other->room(room)[6399]), room + 1);
}

TEST(SegmentTest, OfNothing) {
  llvm::Expected<Segment> made = Segment::Create(0);
  ASSERT_TRUE(static_cast<bool>(made));
  EXPECT_TRUE(made->memory().empty());
  EXPECT_EQ(made->descriptor(), -1);
}

TEST(SegmentTest, MoreThanThereIs) {
  llvm::Expected<Segment> made = Segment::Create(std::uint64_t{1} << 50);
  ASSERT_FALSE(static_cast<bool>(made));
  const FailureText failure = TakeFailure(made.takeError());
  EXPECT_EQ(failure.code, ErrorCode::kMemory);
  EXPECT_NE(failure.message.find("takes 1.13 PB of shared memory, and "), std::string::npos) << failure.message;
}

TEST(SegmentTest, MoreThanThereIsForTwo) {
  llvm::Expected<Segment> made = Segment::Create(std::uint64_t{1} << 49, 2);
  ASSERT_FALSE(static_cast<bool>(made));
  const std::string message = TakeFailure(made.takeError()).message;
  EXPECT_NE(message.find("takes 1.13 PB of shared memory, 2 times 562.9 TB, and "), std::string::npos) << message;
}

// Twice 2^63 bytes are not nothing.
TEST(SegmentTest, MoreThanAnyMachineHas) {
  EXPECT_EQ(TakeFailure(Segment::Create(std::uint64_t{1} << 63, 2).takeError()).code, ErrorCode::kMemory);
  EXPECT_EQ(TakeFailure(Segment::Open(0, std::uint64_t{1} << 63, 2).takeError()).code, ErrorCode::kIo);
}

TEST(SegmentFilesTest, BesideOthers) {
  SegmentFiles files(RealFileSystem(), "/dev/null/job");
  const std::string text = "0123456789";
  files.Add("rank_0", std::as_bytes(std::span(text)));
  llvm::Expected<std::unique_ptr<ReadableFile>> file = files.OpenForReading("/dev/null/job/rank_0");
  ASSERT_TRUE(static_cast<bool>(file));
  EXPECT_EQ((*file)->bytes(), 10U);
  std::string read(4, '\0');
  ASSERT_FALSE(static_cast<bool>((*file)->ReadAt(6, std::as_writable_bytes(std::span(read)))));
  EXPECT_EQ(read, "6789");
  llvm::Error beyond = (*file)->ReadAt(7, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(TakeFailure(std::move(beyond)).code, ErrorCode::kBadData);
  EXPECT_EQ(*files.Kind("/dev/null/job/rank_0"), PathKind::kFile);
  EXPECT_EQ(*files.Kind("/"), PathKind::kDirectory);
  EXPECT_EQ(files.Status("/dev/null/job/rank_0")->bytes, 10U);
}

// One memory is three parts of a file, one after another, and a read of a part that is not there fails.
TEST(SegmentFilesTest, Waves) {
  SegmentFiles files(RealFileSystem(), "/dev/null/job");
  const std::string memory = "0123";
  files.Add("rank_0", std::as_bytes(std::span(memory)), {3, 4});
  llvm::Expected<std::unique_ptr<ReadableFile>> file = files.OpenForReading("/dev/null/job/rank_0");
  ASSERT_TRUE(static_cast<bool>(file));
  EXPECT_EQ((*file)->bytes(), 12U);
  auto read = [&](std::uint64_t offset) {
    std::string found(2, '\0');
    llvm::Error error = (*file)->ReadAt(offset, std::as_writable_bytes(std::span(found)));
    return error ? TakeFailure(std::move(error)).message : found;
  };
  EXPECT_EQ(read(2), "23");
  EXPECT_EQ(read(3), "`/dev/null/job/rank_0` has bytes 3 to 5 in wave 1, and wave 0 is staged");
  files.SetWave(2);
  EXPECT_EQ(read(9), "12");
  files.Add("values", std::as_bytes(std::span(memory)));  // There in every wave.
  std::string all(4, '\0');
  llvm::Expected<std::unique_ptr<ReadableFile>> values = files.OpenForReading("/dev/null/job/values");
  ASSERT_TRUE(static_cast<bool>(values));
  ASSERT_FALSE(static_cast<bool>((*values)->ReadAt(0, std::as_writable_bytes(std::span(all)))));
  EXPECT_EQ(all, memory);
  EXPECT_EQ(read(2), "`/dev/null/job/rank_0` has bytes 2 to 4 in wave 0, and wave 2 is staged");
  files.Add("small", std::as_bytes(std::span(memory)).first(3), {2, 4096});  // A window is larger than what is staged.
  llvm::Expected<std::unique_ptr<ReadableFile>> small = files.OpenForReading("/dev/null/job/small");
  ASSERT_TRUE(static_cast<bool>(small));
  files.SetWave(1);
  EXPECT_EQ(TakeFailure((*small)->ReadAt(4096, std::as_writable_bytes(std::span(all)))).message,
            "`/dev/null/job/small` has 3 bytes in wave 1, and not 4 from 0 on");
}

}  // namespace
}  // namespace ucp
