// Folders and files beside a destination that are left by a writer that was killed, and removed by its successor.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/save_run/save_run.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

class RemainsTest : public ::testing::Test {
 protected:
  RemainsTest() {
    std::filesystem::create_directory(folder_.Path(".saved.ucp-partial"));
    std::ofstream(folder_.Path(".saved.ucp-partial") + "/.metadata") << "x";
    std::ofstream(folder_.Path(".saved.ucp-node")) << "x";
  }

  bool Has(const std::string& name) const { return std::filesystem::exists(folder_.Path(name)); }
  void Remove(bool is_in_parts) { RemoveRemains(RealFileSystem(), folder_.Path("saved"), is_in_parts); }

  ScratchFolder folder_;
};

TEST_F(RemainsTest, NothingStays) {
  for (bool is_in_parts : {false, true}) {
    std::filesystem::create_directories(folder_.Path(".saved.ucp-partial"));
    Remove(is_in_parts);
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  }
}

TEST_F(RemainsTest, WithAFolderAtThePathTheHiddenOneMayBeTheOldPart) {
  std::filesystem::create_directory(folder_.Path("saved"));
  Remove(true);
  EXPECT_TRUE(Has(".saved.ucp-partial/.metadata"));
  EXPECT_FALSE(Has(".saved.ucp-node"));
  Remove(false);
  EXPECT_FALSE(Has(".saved.ucp-partial"));
  EXPECT_TRUE(Has("saved"));
}

TEST_F(RemainsTest, TheOldPartStaysWhereFoldersCannotBeExchanged) {
  std::filesystem::remove_all(folder_.Path(".saved.ucp-partial"));
  std::filesystem::create_directory(folder_.Path("saved"));
  std::filesystem::create_directory(folder_.Path(".saved.ucp-old"));
  Remove(true);
  EXPECT_TRUE(Has(".saved.ucp-old"));
}

}  // namespace
}  // namespace ucp
