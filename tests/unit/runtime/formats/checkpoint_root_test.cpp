#include "runtime/formats/checkpoint_root.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/runtime/formats/testing/checkpoint_copy.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

// A checkpoint of this test is a folder with a file `mark` in it.
class CheckpointRootTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& below) const { return folder_.path() + "/" + below; }
  void MakeCheckpoint(const std::string& name) {
    std::filesystem::create_directories(Path(name));
    WriteFile(name + "/mark", "");
  }
  void WriteFile(const std::string& name, const std::string& text) { std::ofstream(Path(name)) << text; }

  llvm::Expected<std::optional<std::string>> Find(const std::string& path) {
    FileSystem& files = RealFileSystem();
    return FindCheckpoint(files, path,
                          {[&](const std::string& folder) -> llvm::Expected<bool> {
                             UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(folder + "/mark"));
                             return kind == PathKind::kFile;
                           },
                           "latest"});
  }
  std::optional<std::string> Found(const std::string& path) {
    auto found = Find(path);
    if (found) return *found;
    ADD_FAILURE() << ucp::Describe(found.takeError()).message;
    return std::nullopt;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CheckpointRootTest, FindsTheSameFolderFromEverywhere) {
  MakeCheckpoint("root/step4");
  MakeCheckpoint("root/step2");
  WriteFile("root/latest", " step4\n");
  std::filesystem::create_directories(Path("root/step4/zero/name"));
  WriteFile("root/step4/zero/name/fp32.pt", "");
  for (const char* path : {"root", "root/", "root/latest", "root/step4", "root/step4/", "root/step4/mark",
                           "root/step4/zero/name/fp32.pt"}) {
    EXPECT_EQ(Found(Path(path)), Path("root/step4")) << path;
  }
  EXPECT_EQ(Found(Path("root/step2")), Path("root/step2"));
}

TEST_F(CheckpointRootTest, TakesTheOnlyOneWithoutLatest) {
  MakeCheckpoint("root/step4");
  EXPECT_EQ(Found(Path("root")), Path("root/step4"));
}

TEST_F(CheckpointRootTest, AsksWhichOfSeveral) {
  MakeCheckpoint("root/step2");
  MakeCheckpoint("root/step4");
  FailureText failure = testing::FailureOf(Find(Path("root")));
  EXPECT_EQ(failure.code, ErrorCode::kBadData);
  EXPECT_THAT(failure.message, HasSubstr("has no `latest` and holds 2 checkpoints: step2, step4; name one of them"));
}

// What Hugging Face's Trainer leaves in its output folder, and Accelerate in the folder of a state.
TEST_F(CheckpointRootTest, FindsTheFoldersOfTrainers) {
  MakeCheckpoint("output/checkpoint-500/global_step500");
  WriteFile("output/checkpoint-500/latest", "global_step500");
  WriteFile("output/checkpoint-500/trainer_state.json", "{}");
  std::filesystem::create_directories(Path("output/runs"));
  for (const char* path : {"output", "output/checkpoint-500", "output/checkpoint-500/global_step500/mark"}) {
    EXPECT_EQ(Found(Path(path)), Path("output/checkpoint-500/global_step500")) << path;
  }
  MakeCheckpoint("state/pytorch_model");
  WriteFile("state/latest", "pytorch_model");
  EXPECT_EQ(Found(Path("state")), Path("state/pytorch_model"));
}

TEST_F(CheckpointRootTest, AsksWhichOfSeveralRoots) {
  for (const char* root : {"output/checkpoint-500", "output/checkpoint-1000"}) {
    MakeCheckpoint(std::string(root) + "/global_step");
    WriteFile(std::string(root) + "/latest", "global_step");
  }
  FailureText failure = testing::FailureOf(Find(Path("output")));
  EXPECT_EQ(failure.code, ErrorCode::kBadData);
  EXPECT_THAT(failure.message, HasSubstr("holds 2 folders with a `latest` in each: checkpoint-1000, checkpoint-500; "
                                         "name one of them"));
}

TEST_F(CheckpointRootTest, FindsATagOfAnyCharacters) {
  const std::string tag = "größe [1] +*?$ 'x'";
  MakeCheckpoint("root/" + tag);
  MakeCheckpoint("root/other");
  WriteFile("root/latest", tag);
  EXPECT_EQ(Found(Path("root")), Path("root/" + tag));
}

TEST_F(CheckpointRootTest, FindsNothingElsewhere) {
  std::filesystem::create_directories(Path("empty"));
  WriteFile("file", "");
  EXPECT_EQ(Found(Path("empty")), std::nullopt);
  EXPECT_EQ(Found(Path("file")), std::nullopt);
  EXPECT_EQ(Found(Path("missing")), std::nullopt);
}

TEST_F(CheckpointRootTest, RefusesALatestThatNamesNoCheckpoint) {
  std::filesystem::create_directories(Path("root/other"));
  MakeCheckpoint("root/step4");
  WriteFile("root/latest", "other");
  for (const char* path : {"root", "root/latest"}) {
    FailureText failure = testing::FailureOf(Find(Path(path)));
    EXPECT_EQ(failure.code, ErrorCode::kBadData);
    EXPECT_THAT(failure.message, HasSubstr("root/latest` names `other`, which is not a checkpoint"));
  }
}

TEST_F(CheckpointRootTest, RefusesALatestThatIsAFolder) {
  MakeCheckpoint("root/step4");
  std::filesystem::create_directories(Path("root/latest"));
  FailureText failure = testing::FailureOf(Find(Path("root")));
  EXPECT_EQ(failure.code, ErrorCode::kBadData);
  EXPECT_THAT(failure.message, HasSubstr("root/latest` is not a regular file"));
  // Unless that folder is the checkpoint.
  MakeCheckpoint("other/latest");
  EXPECT_EQ(Found(Path("other")), Path("other/latest"));
}

TEST_F(CheckpointRootTest, RefusesALatestThatLeadsNowhere) {
  struct Case {
    std::string text;
    std::string message;
  };
  std::filesystem::create_directories(Path("root"));
  MakeCheckpoint("outside");
  for (const Case& c : {Case{"gone", "names `gone`, and there is no folder"}, Case{" \n", "latest` is empty"},
                        Case{"../outside", "names `../outside`, which is not a folder inside"},
                        Case{"/etc", "names `/etc`, which is not a folder inside"}}) {
    WriteFile("root/latest", c.text);
    FailureText failure = testing::FailureOf(Find(Path("root")));
    EXPECT_EQ(failure.code, ErrorCode::kBadData);
    EXPECT_THAT(failure.message, HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace ucp
