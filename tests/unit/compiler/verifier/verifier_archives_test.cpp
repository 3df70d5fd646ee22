// V8: a sound plan whose target files are archives, with one thing made wrong; and archives that the writer of `.pt`
// files lays out, read by the verifier's own code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/archive/archive_writer.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "compiler/verifier/ready_made_archive.h"
#include "tests/unit/compiler/planner/conversion.h"
#include "tests/unit/compiler/verifier/small_zip.h"
#include "tests/unit/compiler/verifier/verdict.h"

namespace ucp::oracle {
namespace {

using testing::ElementsAre;

void Place(Plan& plan, FileId file, std::uint64_t offset, const std::string& bytes) {
  plan.placements.push_back({file, offset, BlobId(plan.blobs.size())});
  plan.blobs.push_back(bytes);
}

// Each file an archive of three records, of which the second one has the elements: blobs 2 * f and 2 * f + 1 stand
// around it.
void MakeArchives(Plan& plan) {
  plan.crc_fields.clear();
  plan.placements.clear();
  plan.blobs.clear();
  for (std::size_t r = 0; r < plan.target.records.size(); ++r) {
    Record& record = plan.target.records[r];
    StoredFile& file = plan.target.files[record.file.index()];
    SmallZip zip;
    zip.Add("a/data.pkl", "the pickle");
    zip.LeaveOpen("a/data/0", record.bytes);
    zip.Add("a/version", "3\n");
    zip.Finish();
    record.begin = zip.open_begin();
    file.path.replace(file.path.size() - 4, 4, ".pt");
    file.bytes = zip.bytes().size();
    Place(plan, record.file, 0, zip.bytes().substr(0, record.begin));
    Place(plan, record.file, record.begin + record.bytes, zip.bytes().substr(record.begin + record.bytes));
    for (std::uint64_t place : zip.open_crc32_places()) plan.crc_fields.push_back({record.file, place, RecordId(r)});
  }
}

// Of a tensor of six elements and two states over two ranks; and behind it an archive without elements.
Plan SoundPlan() {
  std::vector<TensorCut> whole = {{{ShapeExpr::Length(6)}, {}}};
  std::vector<TensorCut> cut = {{{ShapeExpr::Cut(ShapeExpr::Length(6), {"tp"})}, {}}};
  auto compiled = Compile({whole, cut, {}, {{{{"tp", 2}}}}});
  if (!compiled) ADD_FAILURE() << TakeFailure(compiled.takeError()).message;
  Plan plan = std::move(compiled->plan);
  MakeArchives(plan);
  SmallZip bare;
  bare.Add("a/data.pkl", "nothing but a pickle");
  bare.Finish();
  const FileId file = plan.target.Add(StoredFile{"data/bare.pt", bare.bytes().size(), ""});
  Place(plan, file, 0, bare.bytes());
  return plan;
}

// `from`, which stands in blob `blob`, becomes `to`; `which` others before it stay.
std::function<void(Plan&)> Replace(std::size_t blob, std::string from, std::string to, int which = 0) {
  return [=](Plan& plan) {
    std::size_t at = plan.blobs[blob].find(from);
    for (int i = 0; i < which; ++i) at = plan.blobs[blob].find(from, at + 1);
    ASSERT_NE(at, std::string::npos);
    plan.blobs[blob].replace(at, from.size(), to);
  };
}

// Byte `at` behind the first `from` of a blob becomes another.
std::function<void(Plan&)> Disturb(std::size_t blob, std::string from, std::size_t at, int which = 0) {
  return [=](Plan& plan) {
    std::size_t begin = plan.blobs[blob].find(from);
    for (int i = 0; i < which; ++i) begin = plan.blobs[blob].find(from, begin + 1);
    ASSERT_NE(begin, std::string::npos);
    plan.blobs[blob][begin + at] ^= 1;
  };
}

TEST(VerifierArchivesTest, AcceptsASoundPlan) {
  EXPECT_EQ(SoundPlan().target.records.size(), 4);
  EXPECT_EQ(Verdict(SoundPlan()), "sound");
}

TEST(VerifierArchivesTest, EachRecordHasItsChecksums) {
  ExpectRefused(
      SoundPlan,
      {
          {"none", [](Plan& p) { p.crc_fields.clear(); }, "nothing fills the checksum at byte"},
          {"none behind the data", [](Plan& p) { p.crc_fields.erase(p.crc_fields.begin()); }, "nothing fills"},
          {"none in the directory", [](Plan& p) { p.crc_fields.pop_back(); }, "nothing fills"},
          {"moved by a byte", [](Plan& p) { ++p.crc_fields[1].offset; }, "nothing fills the checksum at byte"},
          {"moved back by a byte", [](Plan& p) { --p.crc_fields[0].offset; }, "is not where its headers have one"},
          {"one more", [](Plan& p) { p.crc_fields.push_back({p.crc_fields[0].file, 14, p.crc_fields[0].record}); },
           "the checksum at byte 14 of"},
          {"of another record", [](Plan& p) { p.crc_fields[1].record = p.crc_fields[2].record; }, "is not in a header"},
          {"known before the data", Disturb(1, "PK\7\10", 4), "is described otherwise in the directory"},
      });
}

TEST(VerifierArchivesTest, HeadersSayWhereRecordsAre) {
  ExpectRefused(
      SoundPlan,
      {
          {"a record that grows over what is behind it", [](Plan& p) { p.target.records[0].bytes += 4; },
           "are neither ready-made nor a record of the plan"},
          {"a record that another one holds, too",
           [](Plan& p) {
             Record inside = p.target.records[0];
             inside.begin += 4, inside.bytes -= 4;
             p.target.records.push_back(inside);
           },
           "two records of"},
          {"a record at the end that no archive has",
           [](Plan& p) {
             p.target.records.push_back({p.target.records[0].file,
                                         p.target.files[p.target.records[0].file.index()].bytes - 3, 3, std::nullopt});
           },
           "3 bytes at"},
          {"a record of no archive's",
           [](Plan& p) { p.target.records.push_back({p.target.records[0].file, 2, 3, std::nullopt}); },
           "are neither ready-made nor a record of the plan"},
          {"a name", Disturb(0, "a/data/0", 7), "the two headers of the record `a/data/0` contradict each other"},
          {"the name in the directory", Disturb(1, "a/data/0", 7), "contradict each other"},
          {"a name that stands twice", Replace(1, "a/data.pkl", "a/data/xyz"), "contradict each other"},
          {"the size behind the data", Disturb(1, "PK\7\10", 8), "is described otherwise in the directory"},
          {"the size in the directory", Disturb(1, "PK\1\2", 24, 1), "is compressed"},
          {"both sizes in the directory",
           [](Plan& p) { Disturb(1, "PK\1\2", 20, 1)(p), Disturb(1, "PK\1\2", 24, 1)(p); }, ""},
          {"a size before the data", Disturb(0, "PK\3\4", 18), "contradict each other"},
          {"a method", Disturb(0, "PK\3\4", 8), "contradict each other"},
          {"a flag", Disturb(0, "PK\3\4", 6), "contradict each other"},
          {"an offset in the directory", Disturb(1, "PK\1\2", 42, 1), "and the one before it ends at"},
          {"a comment in the directory", Disturb(1, "PK\1\2", 32), "has a comment, or another disk"},
          {"the length of an extra field", Disturb(0, "PK\3\4", 28, 1), ""},
          {"a header's signature", Disturb(0, "PK\3\4", 2), "there is no header of a record at byte 0"},
          {"the directory's", Disturb(1, "PK\1\2", 2), "there is no header in its directory at byte"},
          {"the descriptor's", Disturb(1, "PK\7\10", 2), "there is no descriptor of a record at byte"},
      });
}

TEST(VerifierArchivesTest, ReadyMadeRecordsHaveTheirChecksums) {
  ExpectRefused(SoundPlan, {
                               {"another pickle", Disturb(0, "the pickle", 0), "the checksum of `a/data.pkl` in"},
                               {"another version", Disturb(1, "3\n", 0), "the checksum of `a/version` in"},
                               {"without elements, too", Disturb(8, "nothing", 0), "the checksum of `a/data.pkl` in"},
                           });
  Plan beside = SoundPlan();
  beside.target.files.back().path = "scheduler.pt";
  beside.blobs.back()[40] ^= 1;
  EXPECT_EQ(Verdict(beside), "sound");  // Somebody else's, copied as it is.
}

TEST(VerifierArchivesTest, EndRecordsSayWhereTheDirectoryIs) {
  std::vector<Mutation> mutations = {
      {"cut off",
       [](Plan& p) {
         p.blobs[1].pop_back();
         --p.target.files[p.target.records[0].file.index()].bytes;
       },
       "there is no end record at byte"},
  };
  for (const auto& [signature, bytes] : {std::pair("PK\6\6", 56), std::pair("PK\6\7", 20), std::pair("PK\5\6", 22)}) {
    for (int at = 0; at < bytes; ++at) {
      const bool is_a_version = std::string_view(signature) == "PK\6\6" && at >= 12 && at < 16;
      if (!is_a_version) mutations.push_back({signature, Disturb(1, signature, static_cast<std::size_t>(at)), ""});
    }
  }
  ExpectRefused(SoundPlan, mutations);
}

// Two readings of the format: what the writer lays out, the verifier's own code reads, however large it is.
TEST(VerifierArchivesTest, ReadsWhatTheWriterLaysOut) {
  constexpr std::uint64_t kLarge = std::uint64_t{5} << 30;
  const std::vector<pytorch::StorageToWrite> storages = {
      {DType::kFloat32, 12}, {DType::kFloat32, 0}, {DType::kFloat32, kLarge}, {DType::kUInt8, 7}};
  const pytorch::ArchiveLayout layout = pytorch::LayOutArchiveAround("archive", "a pickle", storages);
  std::vector<PlacedBytes> blobs;
  for (const pytorch::Blob& blob : layout.blobs) blobs.push_back({blob.offset, blob.bytes});
  auto archives = ParseArchives("a.pt", blobs, layout.bytes);
  ASSERT_TRUE(static_cast<bool>(archives)) << TakeFailure(archives.takeError()).message;
  ASSERT_EQ(archives->size(), 1);
  const ReadyMadeArchive& records = archives->front();
  std::vector<std::string> names;
  for (const ArchivedRecord& record : records) names.emplace_back(record.name);
  EXPECT_THAT(names, ElementsAre("archive/data.pkl", "archive/.format_version", "archive/.storage_alignment",
                                 "archive/byteorder", "archive/data/0", "archive/data/1", "archive/data/2",
                                 "archive/data/3", "archive/version"));
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const ArchivedRecord& record = records[4 + i];
    EXPECT_EQ(record.begin, layout.storages[i].offset);
    EXPECT_EQ(record.bytes, storages[i].bytes);
    EXPECT_EQ(record.crc32_places, layout.storages[i].crc32_offsets);
  }
}

// `.distcp` files are archives one behind the other, at multiples of 64.
TEST(VerifierArchivesTest, ReadsArchivesBehindOneAnother) {
  const pytorch::ArchiveLayout first = pytorch::LayOutArchiveAround("archive", "first", {{{DType::kFloat32, 12}}});
  const pytorch::ArchiveLayout second = pytorch::LayOutArchiveAround("archive", "second", {{{DType::kUInt8, 7}}});
  const std::uint64_t begin = (first.bytes + 63) / 64 * 64;
  std::string zeros(begin - first.bytes, '\0');
  ASSERT_FALSE(zeros.empty());
  std::vector<PlacedBytes> blobs;
  for (const pytorch::Blob& blob : first.blobs) blobs.push_back({blob.offset, blob.bytes});
  blobs.push_back({first.bytes, zeros});
  for (const pytorch::Blob& blob : second.blobs) blobs.push_back({begin + blob.offset, blob.bytes});
  const auto archives = llvm::cantFail(ParseArchives("__0_0.distcp", blobs, begin + second.bytes));
  ASSERT_EQ(archives.size(), 2);
  EXPECT_EQ(archives[1].front().name, "archive/data.pkl");
  EXPECT_EQ(archives[0][4].begin, first.storages[0].offset);
  EXPECT_EQ(archives[1][4].begin, begin + second.storages[0].offset);
  EXPECT_EQ(archives[1][4].crc32_places.front(), begin + second.storages[0].crc32_offsets.front());
  const auto refusal = [&](std::string_view path) {
    auto parsed = ParseArchives(path, blobs, begin + second.bytes);
    return parsed ? "" : TakeFailure(parsed.takeError()).message;
  };
  EXPECT_THAT(refusal("a.pt"), testing::HasSubstr("nothing that is known stands before it"));
  zeros.front() = 'x';
  EXPECT_THAT(refusal("__0_0.distcp"), testing::HasSubstr("nothing that is known stands before it"));
}

}  // namespace
}  // namespace ucp::oracle
