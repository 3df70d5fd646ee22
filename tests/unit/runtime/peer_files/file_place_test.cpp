#include "runtime/peer_files/file_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/files/lasting_inodes.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FileStatus File(std::uint64_t inode, std::uint64_t bytes = 10) {
  FileStatus status;
  status.kind = PathKind::kFile;
  status.bytes = bytes;
  status.device = 1;
  status.inode = inode;
  return status;
}

FileStatus Folder(std::uint64_t inode) {
  FileStatus status;
  status.kind = PathKind::kDirectory;
  status.inode = inode;
  return status;
}

// Ranks 0 and 1 are on one machine, ranks 2 and 3 on another.
llvm::Expected<FilePlace> Place(const std::vector<PathStatus>& seen) {
  return PlaceOf("x", seen, {0, 0, 1, 1}, "rank");
}

std::string Refusal(const std::vector<PathStatus>& seen) {
  llvm::Expected<FilePlace> place = Place(seen);
  return place ? "" : TakeFailure(place.takeError()).message;
}

TEST(FilePlaceTest, MessagesNameTheRanksAsTheirRunDoes) {
  llvm::Expected<FilePlace> place = PlaceOf("x", {{0, File(7, 10)}, {1, File(8, 11)}}, {0, 1}, "machine");
  EXPECT_EQ(TakeFailure(place.takeError()).message,
            "`x` has 10 bytes at machine 0 and 11 at machine 1; their parts are not of one checkpoint");
  place = PlaceOf("x", {{0, File(7)}, {1, Folder(8)}}, {0, 1}, "machine");
  EXPECT_EQ(TakeFailure(place.takeError()).message,
            "`x` is a file at machine 0 and a folder at machine 1; their parts are not of one checkpoint");
}

TEST(FilePlaceTest, WhoSeesTheSameFileHoldsIt) {
  EXPECT_THAT(llvm::cantFail(Place({{0, File(7)}, {1, File(7)}})).holders, ElementsAre(0, 1));
  EXPECT_THAT(llvm::cantFail(Place({{0, {}}, {1, {}}, {2, File(7)}, {3, File(7)}})).holders, ElementsAre(2, 3));
  EXPECT_THAT(llvm::cantFail(Place({{0, {}}})).holders, ElementsAre());
}

TEST(FilePlaceTest, OfCopiesTheLowestRanksCounts) {
  // On another machine, the same number is another file; and on one machine, another number.
  EXPECT_THAT(llvm::cantFail(Place({{1, File(7)}, {2, File(7)}, {3, File(7)}})).holders, ElementsAre(1));
  const FilePlace place = llvm::cantFail(Place({{0, File(7)}, {1, File(8)}}));
  EXPECT_THAT(place.holders, ElementsAre(0));
  EXPECT_EQ(place.status.inode, 7U);
}

TEST(FilePlaceTest, WhereInodesDoNotLastTheTimeTellsFilesApart) {
  const FileStatus file = File(kFleetingInode);
  FileStatus other = file;
  other.modified_nanoseconds += 1;
  EXPECT_THAT(llvm::cantFail(Place({{0, file}, {1, file}})).holders, ElementsAre(0, 1));
  EXPECT_THAT(llvm::cantFail(Place({{0, file}, {1, other}})).holders, ElementsAre(0));
}

TEST(FilePlaceTest, FoldersAreTogetherOne) {
  const FilePlace place = llvm::cantFail(Place({{1, Folder(3)}, {2, Folder(4)}}));
  EXPECT_EQ(place.status.kind, PathKind::kDirectory);
  EXPECT_THAT(place.holders, ElementsAre());
}

TEST(FilePlaceTest, WhatCannotBeCopiesIsRefused) {
  EXPECT_THAT(Refusal({{0, File(7, 10)}, {2, File(7, 12)}}), HasSubstr("`x` has 10 bytes at rank 0 and 12 at rank 2"));
  EXPECT_THAT(Refusal({{1, Folder(7)}, {2, File(7)}}), HasSubstr("`x` is a folder at rank 1 and a file at rank 2"));
}

}  // namespace
}  // namespace ucp
