#include "runtime/engine/open_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using testing::ElementsAre;

std::set<int> open_now;   // NOLINT: what the fake files below say.
std::vector<int> closed;  // NOLINT

struct FakeFile {
  int number;
};

llvm::Error CloseFake(FakeFile& file) {
  open_now.erase(file.number);
  closed.push_back(file.number);
  return file.number == 13 ? Fail(ErrorCode::kIo, "cannot close 13") : llvm::Error::success();
}

class OpenFilesTest : public testing::Test {
 protected:
  OpenFilesTest() {
    open_now.clear();
    closed.clear();
  }

  llvm::Expected<std::shared_ptr<FakeFile>> Get(int number) {
    return files_.Get(FileId(static_cast<std::size_t>(number)), [&]() -> llvm::Expected<std::unique_ptr<FakeFile>> {
      open_now.insert(number);
      return std::make_unique<FakeFile>(FakeFile{number});
    });
  }

  OpenFiles<FakeFile> files_{3, &CloseFake};
};

TEST_F(OpenFilesTest, TheOneUnusedLongestGivesWay) {
  for (int number : {1, 2, 3, 1, 4, 5}) EXPECT_EQ(llvm::cantFail(Get(number))->number, number);
  EXPECT_THAT(closed, ElementsAre(2, 3));
  EXPECT_THAT(open_now, ElementsAre(1, 4, 5));
}

TEST_F(OpenFilesTest, AFileInUseStays) {
  std::shared_ptr<FakeFile> in_use = llvm::cantFail(Get(1));
  for (int number = 20; number < 100; ++number) {
    llvm::cantFail(Get(number));
    ASSERT_LE(open_now.size(), 3U);
  }
  EXPECT_TRUE(open_now.contains(1));
}

TEST_F(OpenFilesTest, AFailingCloseIsReported) {
  llvm::cantFail(Get(13));
  llvm::cantFail(Get(1));
  EXPECT_EQ(TakeFailure(files_.Close(FileId(13))).message, "cannot close 13");
  EXPECT_FALSE(static_cast<bool>(files_.Close(FileId(13))));  // It is not open any more.
  llvm::cantFail(Get(13));
  llvm::cantFail(Get(2));
  EXPECT_EQ(TakeFailure((llvm::cantFail(Get(1)), Get(3)).takeError()).message, "cannot close 13");
}

}  // namespace
}  // namespace ucp
