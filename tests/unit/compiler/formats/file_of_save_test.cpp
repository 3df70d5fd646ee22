#include "compiler/formats/file_of_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "compiler/support/error.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOne = "0123456789abcdef";
constexpr const char* kOther = "fedcba9876543210";

class FileOfSaveTest : public ::testing::Test {
 protected:
  void Touch(const std::string& name) { std::ofstream(JoinPath(folder_.path(), name)) << "x"; }
  std::string Refusal(const std::vector<std::string>& missing) { return Refusal(folder_.path(), missing); }
  std::string Refusal(const std::string& folder, const std::vector<std::string>& missing) {
    llvm::Error error = CheckOneSave(RealFiles(), folder, missing);
    return error ? TakeFailure(std::move(error)).message : "";
  }

  testing::TemporaryFolder folder_;
};

TEST_F(FileOfSaveTest, NamesOfNoSave) {
  EXPECT_EQ(FileOfSave("__1_0", "", ".distcp"), "__1_0.distcp");
  EXPECT_EQ(FileOfSave("__1_0", kOne, ".distcp"), "__1_0_0123456789abcdef.distcp");
}

TEST_F(FileOfSaveTest, AFileOfAnotherSaveIsInThePlaceOfAMissingOne) {
  Touch(FileOfSave("__0_0", kOther, ".distcp"));
  Touch(FileOfSave("__1_0", kOne, ".distcp"));
  const std::string said = Refusal({FileOfSave("__2_0", kOne, ".distcp"), FileOfSave("__0_0", kOne, ".distcp")});
  EXPECT_THAT(said, HasSubstr("`__0_0_fedcba9876543210.distcp` is of the save fedcba9876543210"));
  EXPECT_THAT(said, HasSubstr("`__0_0_0123456789abcdef.distcp` of the save 0123456789abcdef"));
}

TEST_F(FileOfSaveTest, FilesThatAreMissingAlone) {
  Touch(FileOfSave("__0_0", kOther, ".distcp"));
  Touch("__1_0.distcp");
  Touch("__1_0_0123456789ABCDEF.distcp");
  EXPECT_EQ(Refusal({}), "");
  EXPECT_EQ(Refusal({FileOfSave("__1_0", kOne, ".distcp"), "__0_0.distcp", "", "_.", "a.b/c"}), "");
}

TEST_F(FileOfSaveTest, AFolderThatCannotBeListed) {
  EXPECT_EQ(Refusal(JoinPath(folder_.path(), "nowhere"), {FileOfSave("__1_0", kOne, ".distcp")}), "");
}

}  // namespace
}  // namespace ucp
