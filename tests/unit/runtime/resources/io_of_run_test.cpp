// The cases in which a trial is made; choose_io_test.cpp has its results.
#include "runtime/resources/io_of_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kLarge = std::uint64_t{1} << 30;

class MeansOfRunTest : public testing::Test {
 protected:
  MeansOfRunTest() {
    WriteTestFile(folder_.Path("source/a"), "");
    std::filesystem::resize_file(folder_.Path("source/a"), kLarge);
    std::filesystem::create_directory(folder_.Path("target"));
    plan_.source.Add(StoredFile{"a", kLarge, ""});
  }

  IoOfRun Choose(const BytesToDo& bytes, IoMode wanted = IoMode::kAuto, const std::string& why = "") {
    return llvm::cantFail(ChooseIo(RealFileSystem(), plan_, folder_.Path("source"), {folder_.Path("target"), bytes},
                                   wanted, why, ExecutionOptions()));
  }

  ScratchFolder folder_;
  Plan plan_;
};

TEST_F(MeansOfRunTest, WhatIsLeftToDoCounts) {
  const IoOfRun begun = Choose({kLarge, kLarge});
  EXPECT_THAT(begun.reading.reason, Not(HasSubstr("too few")));
  EXPECT_THAT(begun.writing.reason, Not(HasSubstr("too few")));
  const IoOfRun resumed = Choose({kLarge, kLarge / 64});
  EXPECT_EQ(resumed.reading.reason, "16.8 MB are too few for a trial to pay");
  EXPECT_EQ(resumed.writing.reason, "16.8 MB are too few for a trial to pay");
}

TEST_F(MeansOfRunTest, WithoutATrial) {
  const IoOfRun barred = Choose({kLarge, kLarge}, IoMode::kAuto, "one rank may not");
  EXPECT_FALSE(barred.reading.directly || barred.writing.directly);
  EXPECT_EQ(barred.writing.reason, "one rank may not");
  const IoOfRun wanted = Choose({kLarge, kLarge}, IoMode::kDirect, "one rank may not");
  EXPECT_TRUE(wanted.reading.directly && wanted.writing.directly);
  EXPECT_EQ(wanted.reading.reason, "so io says");
}

}  // namespace
}  // namespace ucp
