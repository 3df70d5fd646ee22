#include "runtime/command_line/text_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "compiler/support/error.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

TEST(TextSinkTest, WritesWhatIsAppended) {
  const ScratchFolder folder;
  const std::string path = folder.Path("log");
  TextSink sink(path, std::fopen(path.c_str(), "w"));
  sink.Append("{begin");
  sink.Flush();
  EXPECT_EQ(ReadTestFile(path), "{begin");
  sink.Append(" and end}");
  ASSERT_FALSE(static_cast<bool>(sink.Close()));
  EXPECT_EQ(ReadTestFile(path), "{begin and end}");
}

TEST(TextSinkTest, AFullDiskIsSaidAtTheEnd) {
  TextSink sink("/dev/full", std::fopen("/dev/full", "w"));
  for (int i = 0; i < 1000; ++i) sink.Append("0123456789");
  llvm::Error error = sink.Close();
  ASSERT_TRUE(static_cast<bool>(error));
  EXPECT_THAT(TakeFailure(std::move(error)).message, HasSubstr("no space left"));
}

}  // namespace
}  // namespace ucp
