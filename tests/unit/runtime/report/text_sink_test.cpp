#include "runtime/report/text_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "tests/unit/runtime/io/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

TEST(TextSinkTest, ReplacesWhatAnEarlierRunWroteAndNothingElse) {
  const ScratchFolder folder;
  const std::string path = folder.Path("log");
  for (const char* before : {"", "{begin of a longer file"}) {
    WriteTestFile(path, before);
    llvm::Expected<TextSink> sink = TextSink::Open(path, "{begin");
    ASSERT_TRUE(static_cast<bool>(sink)) << Describe(sink.takeError()).message;
    sink->Append("{begin");
    sink->Append(" and end}");
    ASSERT_FALSE(static_cast<bool>(sink->Close()));
    EXPECT_EQ(ReadTestFile(path), "{begin and end}");
  }
  WriteTestFile(path, "ucp 1\n");
  llvm::Expected<TextSink> sink = TextSink::Open(path, "{begin");
  ASSERT_FALSE(static_cast<bool>(sink));
  EXPECT_THAT(Describe(sink.takeError()).message, HasSubstr("is no file of an earlier run"));
  EXPECT_EQ(ReadTestFile(path), "ucp 1\n");
}

TEST(TextSinkTest, AFolderThatIsNotThereIsAnError) {
  llvm::Expected<TextSink> sink = TextSink::Open("/nonexistent/log", "{");
  ASSERT_FALSE(static_cast<bool>(sink));
  EXPECT_EQ(Describe(sink.takeError()).code, ErrorCode::kIo);
}

TEST(TextSinkTest, AFullDiskIsSaidAtTheEnd) {
  llvm::Expected<TextSink> sink = TextSink::Open("/dev/full", "");
  ASSERT_TRUE(static_cast<bool>(sink));
  for (int i = 0; i < 1000; ++i) sink->Append("0123456789");
  llvm::Error error = sink->Close();
  ASSERT_TRUE(static_cast<bool>(error));
  EXPECT_THAT(Describe(std::move(error)).message, HasSubstr("no space left"));
}

}  // namespace
}  // namespace ucp
