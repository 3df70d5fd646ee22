#include "runtime/command_line/ceilings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

const char* const kMeasured = R"({"folder": "/disk", "threads": 2, "measured": [
  {"of": "write, buffered", "bytes": 7, "seconds": 1},
  {"of": "write, buffered, with sync", "bytes": 100, "seconds": 2},
  {"of": "read, buffered, from the page cache", "bytes": 1000, "seconds": 1}, %s]})";
const char* const kOfStorage = R"({"of": "read, buffered, from storage", "bytes": 200, "seconds": 1})";
const char* const kNotOfStorage = R"({"of": "read, buffered, from storage", "bytes": 0, "seconds": 0, "why_not": "x"})";

Ceilings Read(const std::string& of_storage) {
  const ScratchFolder folder;
  std::string text = kMeasured;
  text.replace(text.find("%s"), 2, of_storage);
  WriteTestFile(folder.Path("bench.json"), text);
  return llvm::cantFail(ReadCeilings(RealFiles(), folder.Path("bench.json")));
}

TEST(CeilingsTest, SecondsAreThoseOfEachKindOfMoving) {
  const Ceilings ceilings = Read(kOfStorage);
  EXPECT_EQ(ceilings.folder, "/disk");
  EXPECT_DOUBLE_EQ(SecondsAt(ceilings, {3000, 0, 500}), 3.0 + 10.0);
  EXPECT_DOUBLE_EQ(SecondsAt(ceilings, {3000, 1000, 500}), 2.0 + 5.0 + 10.0);
  EXPECT_DOUBLE_EQ(SecondsAt(ceilings, {3000, 9000, 500}), 15.0 + 10.0);  // Other reads of the process do not count.
}

TEST(CeilingsTest, WhereNothingComesFromStorageMemoryIsWhatCounts) {
  EXPECT_DOUBLE_EQ(SecondsAt(Read(kNotOfStorage), {3000, 1000, 0}), 3.0);
}

TEST(CeilingsTest, WhatTheSystemFetchesIsCounted) {
  const std::uint64_t before = BytesFromStorage();
  EXPECT_GE(BytesFromStorage(), before);
}

}  // namespace
}  // namespace ucp
