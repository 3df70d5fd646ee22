// G6 of the guarantees of the design: every call to the file system is made to fail once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "runtime/commit/commit.h"
#include "runtime/executor/execute.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/failing_files.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

// G6: whichever call fails, the error names it, and there is no destination and nothing else left.
TEST(ExecuteTest, FailureLoop) {
  SmallConversion small({{"a", {4, 4}}});
  small.AddSource({.dp = 2});
  small.SetTarget({.dp = 2});
  small.Finish();
  ScratchFolder folder;
  small.WriteSource(folder.Path("source"));
  std::filesystem::create_directory(folder.Path("parent"));
  int call = 1;
  for (;; ++call) {
    FailingFiles files(call);
    ExecutionOptions options;
    options.threads = 1 + static_cast<unsigned>(call) % 2;
    options.most_chunk_bytes = 32;
    auto convert = [&]() -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(Staging staging, Staging::Begin(files, folder.Path("parent/out"), {}));
      UCP_ASSIGN_OR_RETURN(ExecutionReport report,
                           Execute(small.plan(), folder.Path("source"), staging.folder(), files, options));
      return staging.Commit({1, nullptr});
    };
    llvm::Error error = convert();
    if (!files.has_failed()) {
      ASSERT_FALSE(static_cast<bool>(error));
      break;
    }
    ASSERT_TRUE(static_cast<bool>(error)) << files.failed_call();
    ASSERT_THAT(TakeFailure(std::move(error)).message, HasSubstr(files.failed_call()));
    ASSERT_TRUE(std::filesystem::is_empty(folder.Path("parent"))) << files.failed_call();
  }
  EXPECT_GT(call, 40);
  EXPECT_EQ(FilesUnder(folder.Path("parent/out")), small.ExpectedFiles());
}

}  // namespace
}  // namespace ucp
