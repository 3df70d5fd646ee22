// An honest plan whose pickles were changed, with checksums that fit.
#include "runtime/plan_file/ready_made_pickles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/verifier/ready_made_archive.h"
#include "compiler/verifier/verifier.h"
#include "tests/unit/runtime/driver/plan_judge.h"

namespace ucp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Plan& Honest() {
  static const PlanJudge judge({.fixture = "frozen_buffers_zero2", .spec = "", .target = "deepspeed:dp=2,zero=1"});
  return judge.honest().plan;
}

std::string Verdict(const Plan& plan) {
  llvm::Error error = CheckReadyMadePickles(plan);
  return error ? TakeFailure(std::move(error)).message : "data";
}

// Of a file: its bytes become others, wherever they are ready-made.
void Write(Plan& plan, FileId file, std::uint64_t offset, const std::string& bytes) {
  for (const BlobPlacement& placement : plan.placements) {
    std::string& blob = plan.blobs[placement.blob.index()];
    const bool has_it =
        placement.file == file && offset >= placement.offset && offset + bytes.size() <= placement.offset + blob.size();
    if (has_it) blob.replace(offset - placement.offset, bytes.size(), bytes);
  }
}

// The first `from` in the pickle of the first archive becomes `to`, which has its length.
Plan WithPickle(const std::string& from, const std::string& to) {
  Plan plan = Honest();
  const FileId file = ArchivesOf(plan).front();
  const auto blobs = ReadyMadeBytes(plan)[file.index()];
  const StoredFile& target = plan.target.files[file.index()];
  const auto records = llvm::cantFail(ParseArchives(target.path, blobs, target.bytes)).front();
  for (const ArchivedRecord& record : records) {
    if (!record.name.ends_with("/data.pkl")) continue;
    std::string pickle(*FindBytes(blobs, record.begin, record.bytes));
    const std::size_t at = pickle.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    pickle.replace(at, to.size(), to);
    const std::uint32_t crc32 = Crc32(pickle);
    const std::vector<std::uint64_t> places = record.crc32_places;
    Write(plan, file, record.begin, pickle);
    for (std::uint64_t place : places) Write(plan, file, place, {reinterpret_cast<const char*>(&crc32), 4});
    break;
  }
  llvm::Error error = VerifyPlan(plan);
  EXPECT_FALSE(error) << TakeFailure(std::move(error)).message;
  return plan;
}

TEST(ReadyMadePicklesTest, AreDataInAnHonestPlan) { EXPECT_EQ(Verdict(Honest()), "data"); }

TEST(ReadyMadePicklesTest, AreRefusedIfTheyAreNotData) {
  const std::string begin("\x80\x02", 2);
  EXPECT_THAT(Verdict(WithPickle(begin, std::string("\x80\x02").replace(0, 1, "i"))),
              HasSubstr("the plan is not sound: the ready-made pickle of `global_step4/"));
  EXPECT_THAT(Verdict(WithPickle(begin, "oo")), HasSubstr("the plan is not sound: the ready-made pickle of"));
}

TEST(ReadyMadePicklesTest, StoragesAreRecordsOfTheArchive) {
  const std::string key("X\1\0\0\0", 5);
  EXPECT_THAT(Verdict(WithPickle(key + "0", key + "x")),
              AllOf(HasSubstr("names a storage `x` of"), HasSubstr("bytes, and the archive has 0 for it")));
  EXPECT_THAT(Verdict(WithPickle("FloatStorage", "ShortStorage")), HasSubstr("names a storage `"));
}

TEST(ReadyMadePicklesTest, StoragesHaveTheDtypeThatIsWritten) {
  Plan plan = Honest();
  for (Buffer& buffer : plan.target.buffers) {
    if (buffer.dtype == DType::kBFloat16) buffer.dtype = DType::kFloat16;
  }
  EXPECT_THAT(Verdict(plan), HasSubstr("of bfloat16, and float16 is written there"));
}

// The metadata of a dcp folder with `from` in place of `to`, which has its length.
std::string VerdictOnMetadata(const std::string& from, const std::string& to) {
  static const PlanJudge judge({.fixture = "zero1_dp2", .spec = "", .target = "dcp:fsdp=3"});
  Plan plan = judge.honest().plan;
  EXPECT_EQ(from.size(), to.size());
  for (const BlobPlacement& placement : plan.placements) {
    if (plan.target.files[placement.file.index()].path != ".metadata") continue;
    std::string& pickle = plan.blobs[placement.blob.index()];
    const std::size_t at = pickle.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    pickle.replace(at, to.size(), to);
  }
  return Verdict(plan);
}

TEST(ReadyMadePicklesTest, MetadataNamesClassesOfPyTorchAlone) {
  EXPECT_EQ(VerdictOnMetadata("exp_avg", "exp_avg"), "data");
  EXPECT_THAT(VerdictOnMetadata("ctorch\nfloat32\n", "cbuilti\nabcde\n\n"), HasSubstr("names `builti.abcde`"));
  EXPECT_THAT(VerdictOnMetadata("ctorch\nfloat32\n", "ctorch\ncompile\n"), HasSubstr("names `torch.compile`"));
  EXPECT_THAT(VerdictOnMetadata("X\x05", "Y\x05"), HasSubstr("that this project does not write"));
}

}  // namespace
}  // namespace ucp
