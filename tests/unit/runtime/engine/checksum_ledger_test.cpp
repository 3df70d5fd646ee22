#include "runtime/engine/checksum_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "compiler/support/checksum.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kText = "the quick brown fox jumps over the lazy dog";

ChecksumPiece Piece(std::uint64_t begin, std::uint64_t end) {
  return {begin, end, Crc32(std::string_view(kText).substr(begin, end - begin))};
}

TEST(ChecksumLedgerTest, PiecesInAnyOrderBecomeOne) {
  std::vector<ChecksumPiece> pieces;
  for (std::uint64_t i = 0; i < kText.size(); i += 3) {
    pieces.push_back(Piece(i, std::min<std::uint64_t>(kText.size(), i + 3)));
  }
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(pieces.begin(), pieces.end(), random);
    ChecksumLedger ledger(100);
    for (const ChecksumPiece& piece : pieces) ledger.Add(RecordId(5), piece);
    EXPECT_THAT(ledger.TouchedRecords(), ElementsAre(RecordId(5)));
    EXPECT_THAT(ledger.Take(RecordId(5)), ElementsAre(Piece(0, kText.size())));
    EXPECT_THAT(ledger.Take(RecordId(5)), IsEmpty());
  }
}

TEST(ChecksumLedgerTest, GapsStay) {
  ChecksumLedger ledger(100);
  ledger.Add(RecordId(0), Piece(10, 12));
  ledger.Add(RecordId(0), Piece(2, 4));
  ledger.Add(RecordId(1), Piece(4, 10));
  ledger.Add(RecordId(0), Piece(4, 5));
  EXPECT_THAT(ledger.Take(RecordId(0)), ElementsAre(Piece(2, 5), Piece(10, 12)));
}

TEST(ChecksumLedgerTest, OfPiecesThatOverlapOneStays) {
  ChecksumLedger ledger(100);
  ledger.Add(RecordId(0), Piece(0, 10));
  ledger.Add(RecordId(0), Piece(2, 10));
  EXPECT_THAT(ledger.Take(RecordId(0)), ElementsAre(Piece(0, 10)));
  for (ChecksumPiece overlapping : {Piece(8, 12), Piece(1, 6), Piece(5, 7)}) {
    ledger.Add(RecordId(0), Piece(5, 10));
    ledger.Add(RecordId(0), overlapping);
    EXPECT_THAT(ledger.Take(RecordId(0)), ElementsAre(Piece(5, 10)));
  }
  ledger.Add(RecordId(0), Piece(5, 7));
  ledger.Add(RecordId(0), Piece(8, 10));
  ledger.Add(RecordId(0), Piece(9, 12));
  ledger.Add(RecordId(0), Piece(4, 10));
  EXPECT_THAT(ledger.Take(RecordId(0)), ElementsAre(Piece(4, 10)));
}

// Every byte at most once, and never the checksum of other bytes than it says.
TEST(ChecksumLedgerTest, WhateverComesByInWhateverOrder) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    ChecksumLedger ledger(100);
    for (int i = 0; i < 12; ++i) {
      std::uint64_t begin = random() % kText.size();
      ledger.Add(RecordId(0), Piece(begin, begin + 1 + random() % (kText.size() - begin)));
    }
    std::uint64_t end = 0;
    for (const ChecksumPiece& piece : ledger.Take(RecordId(0))) {
      EXPECT_EQ(piece, Piece(piece.begin, piece.end));
      EXPECT_GE(piece.begin, end);
      end = piece.end;
    }
  }
}

TEST(ChecksumLedgerTest, TooManyPiecesAreForgotten) {
  ChecksumLedger ledger(3);
  for (std::uint64_t i = 0; i < 4; ++i) ledger.Add(RecordId(0), Piece(2 * i, 2 * i + 1));
  EXPECT_THAT(ledger.Take(RecordId(0)), IsEmpty());
  for (std::uint64_t i = 0; i < 3; ++i) ledger.Add(RecordId(1), Piece(2 * i, 2 * i + 1));
  EXPECT_EQ(ledger.Take(RecordId(1)).size(), 3U);
}

TEST(Crc32Test, ZerosAndExtension) {
  for (std::uint64_t length : {0U, 1U, 2U, 3U, 7U, 64U, 1000U, 65537U}) {
    EXPECT_EQ(Crc32OfZeros(length), Crc32(std::string(length, '\0'))) << length;
  }
  EXPECT_EQ(ExtendCrc32(Crc32("the quick "), std::as_bytes(std::span("brown", 5))), Crc32("the quick brown"));
}

}  // namespace
}  // namespace ucp
