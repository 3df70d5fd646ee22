// The checkpoint that a path means: roots, tags, broken pointers, several formats in one folder.
#include "compiler/formats/recognise/recognise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Empty files by whose names formats know their checkpoints.
class RecogniseTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& below) const { return folder_.path() + "/" + below; }
  void MakeFolder(const std::string& name) { std::filesystem::create_directories(Path(name)); }
  void MakeCheckpoint(const std::string& name) {
    MakeFolder(name);
    WriteFile(name + "/mp_rank_00_model_states.pt", "");
  }
  void MakeUniversal(const std::string& name) { MakeFolder(name + "/zero/w"); }
  void MakeModel(const std::string& name) {
    MakeFolder(name);
    WriteFile(name + "/model.safetensors", "");
  }
  void WriteFile(const std::string& name, const std::string& text) { std::ofstream(Path(name)) << text; }
  void Link(const std::string& to, const std::string& name) { std::filesystem::create_symlink(to, Path(name)); }

  std::optional<std::string> Found(const std::string& path) {
    auto found = RecogniseAny(RealFiles(), path);
    if (found) {
      format_ = found->format->name();
      remarks_ = found->remarks;
      return found->folder;
    }
    const FailureText failure = TakeFailure(found.takeError());
    if (failure.code != ErrorCode::kUnsupported && failure.code != ErrorCode::kIo) ADD_FAILURE() << failure.message;
    return std::nullopt;
  }
  // Of what is broken or ambiguous.
  std::string Refusal(const std::string& path) {
    const FailureText failure = testing::FailureOf(RecogniseAny(RealFiles(), Path(path)));
    EXPECT_EQ(failure.code, ErrorCode::kBadData) << failure.message;
    return failure.message;
  }

  testing::TemporaryFolder folder_;
  std::string format_;  // Of what was found last.
  std::vector<std::string> remarks_;
};

TEST_F(RecogniseTest, FindsTheSameFolderFromEverywhere) {
  MakeCheckpoint("root/step4");
  MakeCheckpoint("root/step2");
  WriteFile("root/latest", " step4\n");
  std::filesystem::create_directories(Path("root/step4/zero/name"));
  WriteFile("root/step4/zero/name/fp32.pt", "");
  for (const char* path : {"root", "root/", "root/latest", "root/step4", "root/step4/",
                           "root/step4/mp_rank_00_model_states.pt", "root/step4/zero/name/fp32.pt"}) {
    EXPECT_EQ(Found(Path(path)), Path("root/step4")) << path;
  }
  EXPECT_EQ(Found(Path("root/step2")), Path("root/step2"));
}

TEST_F(RecogniseTest, TakesTheOnlyOneWithoutLatest) {
  MakeCheckpoint("root/step4");
  EXPECT_EQ(Found(Path("root")), Path("root/step4"));
}

TEST_F(RecogniseTest, AsksWhichOfSeveral) {
  MakeCheckpoint("root/step2");
  MakeCheckpoint("root/step4");
  EXPECT_THAT(Refusal("root"),
              HasSubstr("holds 2 folders with checkpoints, and no file says which one is meant: step2, step4 "
                        "(deepspeed); name one of them"));
}

// Files that Hugging Face's Trainer leaves in its output folder, and Accelerate in the folder of a state.
TEST_F(RecogniseTest, FindsTheFoldersOfTrainers) {
  MakeCheckpoint("output/checkpoint-500/global_step500");
  WriteFile("output/checkpoint-500/latest", "global_step500");
  WriteFile("output/checkpoint-500/trainer_state.json", "{}");
  std::filesystem::create_directories(Path("output/runs"));
  for (const char* path :
       {"output", "output/checkpoint-500", "output/checkpoint-500/global_step500/mp_rank_00_model_states.pt"}) {
    EXPECT_EQ(Found(Path(path)), Path("output/checkpoint-500/global_step500")) << path;
  }
  MakeCheckpoint("state/pytorch_model");
  WriteFile("state/latest", "pytorch_model");
  EXPECT_EQ(Found(Path("state")), Path("state/pytorch_model"));
}

TEST_F(RecogniseTest, AsksWhichOfSeveralRoots) {
  for (const char* root : {"output/checkpoint-500", "output/checkpoint-1000"}) {
    MakeCheckpoint(std::string(root) + "/global_step");
    WriteFile(std::string(root) + "/latest", "global_step");
  }
  EXPECT_THAT(Refusal("output"), HasSubstr("holds 2 folders with checkpoints, and no file says which one is meant: "
                                           "checkpoint-1000, checkpoint-500 (deepspeed); name one of them"));
}

TEST_F(RecogniseTest, FindsATagOfAnyCharacters) {
  const std::string tag = "größe [1] +*?$ 'x'";
  MakeCheckpoint("root/" + tag);
  MakeCheckpoint("root/other");
  WriteFile("root/latest", tag);
  EXPECT_EQ(Found(Path("root")), Path("root/" + tag));
}

TEST_F(RecogniseTest, FindsNothingElsewhere) {
  std::filesystem::create_directories(Path("empty"));
  WriteFile("file", "");
  EXPECT_EQ(Found(Path("empty")), std::nullopt);
  EXPECT_EQ(Found(Path("file")), std::nullopt);
  EXPECT_EQ(Found(Path("missing")), std::nullopt);
}

TEST_F(RecogniseTest, RefusesALatestThatNamesNoCheckpoint) {
  std::filesystem::create_directories(Path("root/other"));
  MakeCheckpoint("root/step4");
  WriteFile("root/latest", "other");
  for (const char* path : {"root", "root/latest"}) {
    EXPECT_THAT(Refusal(path), HasSubstr("root/latest` names `other`, which is not a checkpoint"));
  }
}

TEST_F(RecogniseTest, RefusesALatestThatIsAFolder) {
  MakeCheckpoint("root/step4");
  std::filesystem::create_directories(Path("root/latest"));
  EXPECT_THAT(Refusal("root"), HasSubstr("root/latest` is not a regular file"));
  // Unless that folder is the checkpoint.
  MakeCheckpoint("other/latest");
  EXPECT_EQ(Found(Path("other")), Path("other/latest"));
}

TEST_F(RecogniseTest, RefusesALatestThatLeadsNowhere) {
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
    EXPECT_THAT(Refusal("root"), HasSubstr(c.message));
  }
}

// An earlier conversion into the folder of the training run.
TEST_F(RecogniseTest, AnEarlierConversionIsNotTakenInstead) {
  MakeCheckpoint("run/global_step3");
  MakeCheckpoint("run/global_step9");
  MakeUniversal("run/universal/global_step3_universal");
  WriteFile("run/universal/latest_universal", "global_step3_universal");
  EXPECT_THAT(Refusal("run"), HasSubstr("global_step3, global_step9 (deepspeed), universal (universal); name one of"));
  WriteFile("run/latest", "global_step7");
  EXPECT_THAT(Refusal("run"), HasSubstr("names `global_step7`, and there is no folder"));
  EXPECT_THAT(Refusal("run"), HasSubstr("global_step3, global_step9 (deepspeed), universal (universal)"));
  WriteFile("run/latest", "global_step9");
  EXPECT_EQ(Found(Path("run")), Path("run/global_step9"));
  EXPECT_EQ(Found(Path("run/universal")), Path("run/universal/global_step3_universal"));
}

// Each folder of a run has one, two or no tags, a good, a broken, an empty or no latest, and one conversion or none.
TEST_F(RecogniseTest, EveryCombination) {
  struct Latest {
    const char* name;
    bool leads;  // To tag1.
    bool fails;
  };
  int number = 0;
  for (int tags : {0, 1, 2}) {
    for (const Latest latest :
         {Latest{"", false, false}, {"tag1", true, false}, {"gone", false, true}, {" ", false, true}}) {
      for (const char* inside : {"", "universal", "deepspeed", "safetensors"}) {
        const std::string run = "run" + std::to_string(++number);
        MakeFolder(run);
        for (int tag = 1; tag <= tags; ++tag) MakeCheckpoint(run + "/tag" + std::to_string(tag));
        if (*latest.name != '\0') WriteFile(run + "/latest", latest.name);
        const std::string converted = run + "/converted";
        if (std::string(inside) == "universal") MakeUniversal(converted);
        if (std::string(inside) == "deepspeed") MakeCheckpoint(converted);
        if (std::string(inside) == "safetensors") MakeModel(converted);
        const int below = tags + (*inside == '\0' ? 0 : 1);
        SCOPED_TRACE(run + ": " + std::to_string(tags) + " tags, latest `" + latest.name + "`, inside `" + inside +
                     "`");
        if (latest.fails || (latest.leads && tags == 0) || (!latest.leads && below > 1)) {
          Refusal(run);
        } else if (latest.leads) {
          EXPECT_EQ(Found(Path(run)), Path(run + "/tag1"));
        } else if (below == 0) {
          EXPECT_EQ(Found(Path(run)), std::nullopt);
        } else {
          EXPECT_EQ(Found(Path(run)), Path(tags == 1 ? run + "/tag1" : converted));
        }
      }
    }
  }
}

TEST_F(RecogniseTest, TwoAnswersAtOneLevelAreNamed) {
  MakeCheckpoint("run/step9");
  WriteFile("run/latest", "step9");
  MakeUniversal("run/step3_universal");
  WriteFile("run/latest_universal", "step3_universal");
  EXPECT_THAT(Refusal("run"), HasSubstr("/run/step9` (deepspeed), which `latest` names"));
  EXPECT_THAT(Refusal("run"), HasSubstr("/run/step3_universal` (universal), which `latest_universal` names"));
  EXPECT_EQ(Found(Path("run/latest")), Path("run/step9"));
  EXPECT_EQ(Found(Path("run/latest_universal")), Path("run/step3_universal"));
}

TEST_F(RecogniseTest, WeightsBesideACheckpointArePassedOverAndNamed) {
  MakeCheckpoint("run/step9");
  WriteFile("run/latest", "step9");
  WriteFile("run/model.safetensors", "");
  EXPECT_EQ(Found(Path("run")), Path("run/step9"));
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("also holds a model of the format safetensors, which is not read")));
  EXPECT_EQ(Found(Path("run/model.safetensors")), Path("run"));
  EXPECT_EQ(format_, "safetensors");
}

TEST_F(RecogniseTest, AModelSaysWhatElseItsFolderHolds) {
  MakeModel("output");
  MakeCheckpoint("output/checkpoint-500/global_step500");
  WriteFile("output/checkpoint-500/latest", "global_step500");
  EXPECT_EQ(Found(Path("output")), Path("output"));
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("name a folder in it to read that instead: checkpoint-500 (deepspeed)")));
}

TEST_F(RecogniseTest, AFolderThatIsTakenUnaskedIsNamed) {
  MakeUniversal("run/universal/step3_universal");
  WriteFile("run/universal/latest_universal", "step3_universal");
  EXPECT_EQ(Found(Path("run")), Path("run/universal/step3_universal"));
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("its only folder that does, `universal`, is read")));
}

TEST_F(RecogniseTest, UnfinishedConversionsAreNotCheckpoints) {
  MakeCheckpoint("run/.out.ucp-partial/global_step9");
  MakeCheckpoint("run/.hidden");
  EXPECT_EQ(Found(Path("run")), std::nullopt);
  for (const char* path : {"run/.out.ucp-partial", "run/.out.ucp-partial/global_step9"}) {
    EXPECT_THAT(Refusal(path), HasSubstr("belongs to a conversion to `out` that has not finished; run the same"));
  }
  Link(".out.ucp-partial", "run/step9");
  EXPECT_THAT(Refusal("run/step9"), HasSubstr("has not finished"));
  WriteFile("run/latest", ".hidden");
  EXPECT_EQ(Found(Path("run")), Path("run/.hidden"));  // A tag may be called so, and is named here.
  WriteFile("run/latest", ".out.ucp-partial");
  EXPECT_THAT(Refusal("run"), HasSubstr("names `.out.ucp-partial`, which is the unfinished work of a conversion"));
}

TEST_F(RecogniseTest, ASecondNameOfATagIsNotASecondTag) {
  MakeCheckpoint("run/step9");
  Link("step9", "run/newest");
  EXPECT_EQ(Found(Path("run")), Path("run/step9"));
  EXPECT_THAT(remarks_, ElementsAre());
}

TEST_F(RecogniseTest, LinksOutOfTheRootAreNamed) {
  MakeCheckpoint("elsewhere/step9");
  MakeFolder("run");
  Link(Path("elsewhere/step9"), "run/step9");
  EXPECT_EQ(Found(Path("run")), Path("run/step9"));
  EXPECT_THAT(remarks_,
              ElementsAre(HasSubstr("/run/step9` is a link to `" + Path("elsewhere/step9") + "`, outside of")));
  Link("nowhere", "run/latest");
  EXPECT_THAT(Refusal("run"), HasSubstr("/run/latest` is a link to `nowhere`, and nothing is there"));
}

}  // namespace
}  // namespace ucp
