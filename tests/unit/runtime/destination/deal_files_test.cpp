#include "runtime/destination/deal_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Rank after rank to node after node, each as full as the others or by one fuller.
TEST(DealFilesTest, RanksGoToNodesInOrder) {
  for (int ranks = 1; ranks <= 40; ++ranks) {
    for (int nodes = 1; nodes <= 12; ++nodes) {
      std::vector<int> expected;
      for (int node = 0; node < nodes; ++node) {
        expected.insert(expected.end(), static_cast<std::size_t>(ranks / nodes + (node < ranks % nodes ? 1 : 0)), node);
      }
      std::vector<int> dealt;
      for (int rank = 0; rank < ranks; ++rank) dealt.push_back(NodeOfJobRank(rank, ranks, nodes));
      EXPECT_EQ(dealt, expected) << ranks << " ranks on " << nodes;
    }
  }
}

// Damaged bytes are refused, wherever they were cut off; and so are shares that do not fit the files and the parts.
TEST(DealFilesTest, WhatAnotherRankSaysIsChecked) {
  const FileReaders readers = MakeReaders(6, {{0}, {1, 2}, {}, {5}});
  const TargetParts parts = DealFiles(readers, 4, {0, 1, 2});
  const std::string bytes = EncodeDealt(parts);
  const TargetParts decoded = llvm::cantFail(DecodeDealt(bytes, 4, {0, 1, 2}));
  EXPECT_EQ(decoded.count, 3);
  EXPECT_EQ(decoded.sets, parts.sets);
  EXPECT_EQ(decoded.set_of_file, parts.set_of_file);
  auto refusal = [](const std::string& given, std::size_t files, std::vector<int> part_of_rank) {
    auto refused = DecodeDealt(given, files, std::move(part_of_rank));
    return refused ? "accepted" : TakeFailure(refused.takeError()).message;
  };
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(refusal(bytes.substr(0, size), 4, {0, 1, 2}),
              fmt::format("rank 0 sent {} bytes about the parts of 4 files that cannot be read; all ranks must run the "
                          "same ucp",
                          size));
  }
  EXPECT_THAT(refusal(bytes + "x", 4, {0, 1, 2}), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal(bytes, 5, {0, 1, 2}), HasSubstr("the parts of 5 files"));
  EXPECT_THAT(refusal(bytes, 4, {0, 1, 1}), HasSubstr("cannot be read"));  // There is no third part.
}

// A job of six ranks on three nodes, converted by ranks of which the second node has two.
TEST(DealFilesTest, AFileIsWhereItIsOpened) {
  const FileReaders readers = MakeReaders(6, {{0}, {1, 2}, {}, {0, 1, 2, 3, 4, 5}, {5}, {0, 5}, {1}});
  TargetParts parts = DealFiles(readers, 7, {0, 1, 1, 2});
  EXPECT_EQ(parts.count, 3);
  EXPECT_THAT(parts.PartsWith(FileId(0)), ElementsAre(0));
  EXPECT_THAT(parts.PartsWith(FileId(1)), ElementsAre(0, 1));
  EXPECT_THAT(parts.PartsWith(FileId(2)), IsEmpty());  // All.
  EXPECT_THAT(parts.PartsWith(FileId(3)), IsEmpty());
  EXPECT_THAT(parts.PartsWith(FileId(5)), ElementsAre(0, 2));
  EXPECT_EQ(parts.set_of_file[0], parts.set_of_file[6]);
  EXPECT_THAT(parts.FilesOf(1), ElementsAre(FileId(1), FileId(2), FileId(3)));
  EXPECT_THAT(parts.FilesOf(2), ElementsAre(FileId(2), FileId(3), FileId(4), FileId(5)));
  EXPECT_EQ(parts.LeaderOf(1), 1);
  EXPECT_EQ(parts.LeaderOf(2), 3);
  EXPECT_EQ(parts.CountingPart(FileId(5)), 0);
  parts.is_done = {true, false, true};
  EXPECT_EQ(parts.CountingPart(FileId(1)), 1);
  EXPECT_EQ(parts.CountingPart(FileId(5)), std::nullopt);
}

TEST(DealFilesTest, WhereNothingIsKnownAllPartsHaveAll) {
  const TargetParts parts = DealFiles(FileReaders(), 2, {0, 1});
  EXPECT_THAT(parts.FilesOf(1), ElementsAre(FileId(0), FileId(1)));
}

}  // namespace
}  // namespace ucp
