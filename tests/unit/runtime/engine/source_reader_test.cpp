#include "runtime/engine/source_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "compiler/support/error.h"
#include "tests/unit/runtime/executor/counted_reads.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kHeader = 100;  // Bytes of the file before its first record.
constexpr std::uint64_t kRecord = 60'000;

// Two records of one file.
class SourceReaderTest : public testing::Test {
 protected:
  SourceReaderTest() {
    for (std::size_t i = 0; i < kHeader + 2 * kRecord; ++i) contents_ += static_cast<char>(i * i >> 7);
    Write();
    plan_.source.files.push_back({"file", contents_.size(), ""});
    for (std::uint64_t begin : {kHeader, kHeader + kRecord}) {
      const auto* bytes = reinterpret_cast<const Bytef*>(contents_.data() + begin);
      plan_.source.records.push_back({FileId(0), begin, kRecord, static_cast<std::uint32_t>(crc32(0, bytes, kRecord))});
    }
  }

  void Write() { WriteTestFile(folder_.Path("file"), contents_); }

  static PieceToRead Piece(std::size_t record, std::uint64_t offset, std::uint64_t bytes) {
    return {RecordId(record), offset, bytes, bytes};
  }

  // Read() gives the bytes that the file holds there.
  void ExpectRight(const PieceToRead& piece) {
    std::string got(piece.bytes, '\0');
    llvm::cantFail(reader_.Read(piece.record, piece.offset, std::as_writable_bytes(std::span(got)), piece.needed_bytes,
                                ReadReason::kCopy));
    EXPECT_EQ(got, contents_.substr(plan_.source.record(piece.record).begin + piece.offset, piece.bytes));
  }

  void ReadAhead(const std::vector<PieceToRead>& pieces, std::size_t room = 1 << 16) {
    memory_.resize(room);
    llvm::cantFail(reader_.ReadAhead(pieces, memory_));
  }

  std::string ErrorOfChecksums() {
    reader_.Flush();
    std::vector<std::byte> scratch(5000);
    const std::span<std::byte> of_thread = scratch;
    llvm::Error error = source_.CheckChecksums({1, nullptr}, {&of_thread, 1});
    return error ? TakeFailure(std::move(error)).message : "no error";
  }

  ScratchFolder folder_;
  std::string contents_;
  Plan plan_;
  CountedReads files_;
  SourceFiles source_{plan_, folder_.Path(""), files_, true, 1000};
  SourceReader reader_{source_};
  std::vector<std::byte> memory_;
};

TEST_F(SourceReaderTest, PiecesNearOneAnotherAreOneRead) {
  const std::vector<PieceToRead> pieces = {Piece(0, 5300, 300), Piece(0, 40, 60), Piece(0, 100, 70),
                                           Piece(0, 4500, 800)};
  ReadAhead(pieces);
  EXPECT_EQ(files_.reads(), 2);  // Between 170 and 4500 is too much, and between the other ones nothing.
  for (const PieceToRead& piece : pieces) ExpectRight(piece);
  EXPECT_EQ(source_.bytes_read(ReadReason::kCopy), 300U + 60 + 70 + 800);
  EXPECT_EQ(source_.bytes_read(ReadReason::kChecksum), 0U);
  ExpectRight(Piece(0, 60, 100));  // A part of what was read.
  EXPECT_EQ(files_.reads(), 2);
  ExpectRight(Piece(0, 150, 30));  // It ends where nothing was read.
  EXPECT_EQ(files_.reads(), 3);
}

TEST_F(SourceReaderTest, WhatLiesBetweenCountsForChecksums) {
  const std::vector<PieceToRead> pieces = {Piece(0, 0, 100), {RecordId(0), 600, 400, 200}, Piece(0, 1100, 200)};
  ReadAhead(pieces);
  for (const PieceToRead& piece : pieces) ExpectRight(piece);
  EXPECT_EQ(files_.reads(), 1);
  EXPECT_EQ(source_.bytes_read(ReadReason::kCopy), 100U + 200 + 200);
  EXPECT_EQ(source_.bytes_read(ReadReason::kChecksum), 500U + 200 + 100);
}

TEST_F(SourceReaderTest, OnePieceIsReadWhereItIsNeeded) {
  const std::vector<PieceToRead> pieces = {Piece(0, 0, 100), Piece(0, 100 + kSmallGapBytes, 50), Piece(1, 0, 70)};
  ReadAhead(pieces);
  EXPECT_EQ(files_.reads(), 0);
  for (const PieceToRead& piece : pieces) ExpectRight(piece);
  EXPECT_EQ(files_.reads(), 3);
}

TEST_F(SourceReaderTest, RecordsAreReadApart) {
  const std::vector<PieceToRead> pieces = {Piece(0, kRecord - 200, 100), Piece(1, 0, 100), Piece(0, kRecord - 100, 100),
                                           Piece(1, 100, 100)};
  ReadAhead(pieces);
  EXPECT_EQ(files_.reads(), 2);
  for (const PieceToRead& piece : pieces) ExpectRight(piece);
  EXPECT_EQ(files_.reads(), 2);
}

TEST_F(SourceReaderTest, AsFarAsThereIsRoom) {
  const std::vector<PieceToRead> pieces = {Piece(0, 0, 400), Piece(0, 400, 400), Piece(0, 800, 400),
                                           Piece(0, 1200, 400), Piece(0, 1600, 400)};
  ReadAhead(pieces, 1000);
  EXPECT_EQ(files_.reads(), 1);  // Two pieces; of the others no two have room.
  for (const PieceToRead& piece : pieces) ExpectRight(piece);
  EXPECT_EQ(files_.reads(), 4);
  ReadAhead({Piece(0, 400, 400), Piece(0, 800, 100)});
  ExpectRight(pieces[0]);  // Pieces that were ahead before are forgotten.
  EXPECT_EQ(files_.reads(), 6);
}

TEST_F(SourceReaderTest, AllThatWasReadEntersTheChecksum) {
  ReadAhead({Piece(0, 10, 100), Piece(0, 3000, 100)});
  EXPECT_EQ(ErrorOfChecksums(), "no error");
  EXPECT_EQ(source_.bytes_read(ReadReason::kChecksum), kRecord - 200);
}

TEST_F(SourceReaderTest, ADamagedByteBetweenIsFound) {
  contents_[kHeader + 1500] ^= 1;
  Write();
  ReadAhead({Piece(0, 10, 100), Piece(0, 3000, 100)});
  contents_[kHeader + 1500] ^= 1;
  Write();  // Later reads are right.
  EXPECT_THAT(ErrorOfChecksums(), HasSubstr("is damaged: bytes 100 to 60100"));
}

// Everything is another rank's.
class Elsewhere : public SourceOfNodes {
 public:
  explicit Elsewhere(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  FileSystem& files() override { return files_; }
  bool IsElsewhere(FileId) const override { return true; }
  llvm::Error ReadRows(FileId, const ByteRows& rows, std::span<std::byte> packed) override {
    std::unique_ptr<ReadableFile> file = llvm::cantFail(files_.OpenForReading(path_));
    ForEachRow(rows, [&](std::uint64_t offset) {
      llvm::cantFail(file->ReadAt(offset, packed.first(rows.row_bytes)));
      packed = packed.subspan(rows.row_bytes);
    });
    return llvm::Error::success();
  }
  std::uint64_t bytes_received() const override { return 0; }
  bool AnswersFor(FileId) const override { return false; }

 private:
  FileSystem& files_;
  const std::string path_;
};

TEST_F(SourceReaderTest, OfAnotherRankNothingIsReadThatLiesBetween) {
  Elsewhere nodes(files_, folder_.Path("file"));
  SourceFiles source(plan_, folder_.Path(""), files_, true, 1000, 8, &nodes);
  SourceReader reader(source);
  std::vector<std::byte> memory(1 << 16);
  const PieceToRead rows{RecordId(0), 400, 300, 200};  // Every third byte is not needed.
  llvm::cantFail(reader.ReadAhead({Piece(0, 0, 100), Piece(0, 100, 100), Piece(0, 201, 100), rows}, memory));
  EXPECT_EQ(files_.reads(), 1);
  std::string got(200, '\0');
  llvm::cantFail(reader.ReadRows(RecordId(0), {0, 200, {}}, std::as_writable_bytes(std::span(got)), ReadReason::kCopy));
  EXPECT_EQ(got, contents_.substr(kHeader, 200));
  EXPECT_EQ(files_.reads(), 1);
  llvm::cantFail(
      reader.ReadRows(RecordId(0), {400, 2, {{100, 3}}}, std::as_writable_bytes(std::span(got)), ReadReason::kCopy));
  EXPECT_EQ(files_.reads(), 101);
  EXPECT_EQ(source.bytes_read(ReadReason::kCopy), 400U);
  EXPECT_EQ(source.bytes_read(ReadReason::kChecksum), 0U);
}

}  // namespace
}  // namespace ucp
