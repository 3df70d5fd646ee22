// E1 to E5 are those of engine.h, G7 is one of the guarantees of the design.
#include "runtime/executor/execute.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <sstream>

#include "compiler/support/error.h"
#include "compiler/support/peak_memory.h"
#include "compiler/verifier/verifier.h"
#include "runtime/digest/file_sums.h"
#include "runtime/engine/buffers.h"
#include "tests/unit/runtime/executor/counted_reads.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

ExecutionOptions Options(unsigned threads, std::uint64_t chunk_bytes) {
  ExecutionOptions options;
  options.threads = threads;
  options.most_chunk_bytes = chunk_bytes;
  return options;
}

// Runs a conversion in a folder of its own.
class Conversion {
 public:
  explicit Conversion(SmallConversion& small) : small_(small) {
    small.WriteSource(source());
    std::filesystem::create_directory(target());
  }

  std::string source() const { return folder_.Path("source"); }
  std::string target() const { return folder_.Path("target"); }

  llvm::Expected<ExecutionReport> Run(const ExecutionOptions& options, FileSystem& files = RealFileSystem()) {
    std::filesystem::remove_all(target());
    std::filesystem::create_directory(target());
    return Execute(small_.plan(), source(), target(), files, options);
  }

  std::string ErrorOf(const ExecutionOptions& options) {
    llvm::Expected<ExecutionReport> report = Run(options);
    return report ? "no error" : TakeFailure(report.takeError()).message;
  }

 private:
  SmallConversion& small_;
  ScratchFolder folder_;
};

std::vector<std::string> TextsOf(const std::vector<StateDigest>& digests) {
  std::vector<std::string> texts;
  for (const StateDigest& entry : digests) {
    texts.push_back(fmt::format("{} {} {} {}", entry.tensor, entry.state, Name(entry.dtype), entry.digest));
  }
  return texts;
}

std::map<std::string, std::string> DigestsByPath(const Plan& plan, const ExecutionReport& report) {
  std::map<std::string, std::string> digests;
  for (std::size_t i = 0; i < plan.target.files.size(); ++i) {
    digests[plan.target.files[i].path] = report.file_digests[i];
  }
  return digests;
}

std::map<std::string, std::string> DigestsOfFiles(std::map<std::string, std::string> files) {
  for (auto& [path, content] : files) {
    FileSums sums({content.size()});
    sums.Add(0, 0, std::as_bytes(std::span(content)));
    content = sums.Digest(0);
  }
  return files;
}

void ExpectRightRun(SmallConversion& small, Conversion& conversion, const ExecutionOptions& options,
                    FileSystem& files = RealFileSystem()) {
  llvm::Expected<ExecutionReport> report = conversion.Run(options, files);
  ASSERT_TRUE(static_cast<bool>(report)) << TakeFailure(report.takeError()).message;
  ASSERT_EQ(FilesUnder(conversion.target()), small.ExpectedFiles());
  ASSERT_THAT(report->rounding_mismatches, IsEmpty());
  ASSERT_EQ(report->bytes_copied, Totals(small.plan()).bytes_to_copy);
  ASSERT_EQ(report->bytes_compared, Totals(small.plan()).bytes_to_compare);
  ASSERT_EQ(report->bytes_written, Totals(small.plan()).bytes_to_write);
  ASSERT_EQ(TextsOf(report->digests), small.ExpectedDigests());
  ASSERT_EQ(DigestsByPath(small.plan(), *report), DigestsOfFiles(small.ExpectedFiles()));
}

void ExpectRight(SmallConversion& small, const std::string& what) {
  if (llvm::Error error = VerifyPlan(small.plan())) {
    FAIL() << what << ": " << TakeFailure(std::move(error)).message;
  }
  Conversion conversion(small);
  for (auto [threads, chunk_bytes] : {std::pair(1U, 1U << 20), {1U, 16U}, {2U, 60U}, {7U, 100U}}) {
    SCOPED_TRACE(fmt::format("{}, {} threads", what, threads));
    ExpectRightRun(small, conversion, Options(threads, chunk_bytes));
  }
}

SmallConversion Plain() {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}});
  small.AddSource({.tp = 2, .cut_dim = 0, .dp = 2});
  small.SetTarget({});
  small.Finish();
  return small;
}

TEST(ExecuteTest, UnitesWhatTensorAndDataParallelismCut) {
  SmallConversion small = Plain();
  ExpectRight(small, "plain");
}

TEST(ExecuteTest, WeightsAreTheRoundingsOfMasters) {
  for (Spread spread : {Spread::kAcrossBuffer, Spread::kEachTensor}) {
    for (bool transposed : {false, true}) {
      SmallConversion small({{"a", {6, 4}}, {"b", {8}}, {"c", {4, 6, 2}}}, {"fp32"});
      SmallCut from{.tp = 2, .cut_dim = 0, .dp = transposed ? 1 : 2, .spread = spread, .transposed = transposed};
      small.AddSource(from);
      small.AddSource({.tp = 2, .cut_dim = 1}, ReadRole::kCheckRounding, "weight_");
      small.SetTarget({.tp = 2, .cut_dim = 1, .padding = 1, .dp = 2, .spread = spread, .weights = true});
      small.Finish();
      ExpectRight(small, "weights");
    }
  }
}

TEST(ExecuteTest, ACastHasTheDigestsOfBothSides) {
  SmallConversion small({{"a", {6, 4}}}, {"fp32"});
  small.AddSource({});
  small.SetTarget({.tp = 2, .weights = true});
  small.Finish();
  Conversion conversion(small);
  auto cast = conversion.Run(Options(1, 64));
  ASSERT_TRUE(static_cast<bool>(cast)) << TakeFailure(cast.takeError()).message;
  SmallConversion whole({{"a", {6, 4}}}, {"fp32"});
  whole.SetTarget({});
  ASSERT_EQ(cast->digests.size(), 1U);
  EXPECT_EQ(fmt::format("a fp32 float32 {}", cast->digests[0].source_digest), whole.ExpectedDigests()[0]);
}

TEST(ExecuteTest, EveryCutIntoEveryOther) {
  int number = 0;
  for (std::int64_t source_tp : {1, 2}) {
    for (std::int64_t target_tp : {1, 2}) {
      for (std::int64_t cut_dim : {0, 1}) {
        for (Spread spread : {Spread::kAcrossBuffer, Spread::kEachTensor}) {
          for (bool fused : {false, true}) {
            SmallConversion small({{"a", {4, 8}}, {"b", {8}}, {"c", {4, 6, 4}}, {"d", {}}});
            bool cuts = source_tp > 1 || target_tp > 1;
            if (cuts) small = SmallConversion({{"a", {4, 8}}, {"b", {8}}, {"c", {4, 6, 4}}});
            small.AddSource({.tp = source_tp, .cut_dim = cut_dim, .fused = fused, .dp = 3, .spread = spread});
            small.SetTarget({.tp = target_tp, .cut_dim = 1, .padding = fused ? 2 : 0, .dp = 2, .alignment = 4});
            small.Finish();
            ExpectRight(small, fmt::format("case {}", number++));
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// As in ZeRO-3: each rank has a little of every tensor. 4 ranks become 3, two states each.
TEST(ExecuteTest, SmallPiecesAreReadTogether) {
  std::vector<SmallTensor> tensors;
  for (int i = 0; i < 500; ++i) tensors.push_back({fmt::format("t{}", i), {5, 12}});
  SmallConversion small(std::move(tensors));
  small.AddSource({.dp = 4, .spread = Spread::kEachTensor});
  small.SetTarget({.dp = 3, .spread = Spread::kEachTensor});
  small.Finish();
  Conversion conversion(small);
  CountedReads files;
  ExpectRightRun(small, conversion, Options(1, std::uint64_t{1} << 20), files);
  EXPECT_LE(files.reads(), 20);  // Of 4,000 pieces.
}

TEST(ExecuteTest, PaddingAndTransposedSources) {
  for (bool transposed : {false, true}) {
    SmallConversion small({{"a", {6, 10}}, {"b", {8, 3, 4}}});
    small.AddSource({.tp = 2, .cut_dim = -1, .padding = 3, .alignment = 8, .transposed = transposed});
    small.SetTarget({.dp = 2});
    small.Finish();
    ExpectRight(small, transposed ? "transposed" : "padded");
  }
}

TEST(ExecuteTest, RandomCuts) {
  std::mt19937 random(20261121);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<std::int64_t>(low, high)(random); };
  for (int round = 0; round < 40; ++round) {
    std::vector<SmallTensor> tensors;
    for (std::int64_t t = pick(1, 4); t > 0; --t) {
      std::vector<std::int64_t> shape;
      for (std::int64_t d = pick(1, 3); d > 0; --d) shape.push_back(4 * pick(1, 3));
      tensors.push_back({fmt::format("t{}", tensors.size()), shape});
    }
    auto cut = [&] {
      return SmallCut{.tp = pick(1, 2),
                      .cut_dim = pick(0, 2),
                      .fused = pick(0, 1) == 1,
                      .padding = pick(0, 1) * pick(0, 4),
                      .dp = pick(1, 4),
                      .spread = pick(0, 1) == 1 ? Spread::kEachTensor : Spread::kAcrossBuffer,
                      .alignment = pick(1, 4)};
    };
    SmallConversion small(tensors);
    small.AddSource(cut());
    small.AddSource({.dp = pick(1, 3)}, ReadRole::kCompare, "replica_");
    small.AddSource(cut(), ReadRole::kCheckRounding, "weight_");
    small.SetTarget(cut());
    small.Finish();
    ExpectRight(small, fmt::format("round {}", round));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ExecuteTest, E1ASourceOfAnotherSizeIsRefused) {
  SmallConversion small = Plain();
  Conversion conversion(small);
  std::string path = conversion.source() + "/source_tp1_dp0";
  WriteTestFile(path, "short");
  EXPECT_THAT(conversion.ErrorOf(Options(2, 64)), AllOf(HasSubstr("`" + path + "` has 5 bytes, and had ")));
  std::filesystem::remove(path);
  EXPECT_THAT(conversion.ErrorOf(Options(2, 64)), HasSubstr("is not there as a file"));
}

TEST(ExecuteTest, E3AReplicaThatDiffersIsAnErrorWithBothValuesAndPlaces) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}});
  small.AddSource({.tp = 2});
  small.AddSource({.tp = 2, .cut_dim = 1}, ReadRole::kCompare, "replica_");
  small.SetTarget({});
  small.Finish();
  // Element [5, 2] of `a` is local [5, 0] of the second column block, in the first record (exp_avg) behind two others.
  std::string& replica = small.source_contents()["replica_tp1_dp0"];
  float wrong = 0.5F;
  std::memcpy(replica.data() + 19 + (2 + 10) * 4, &wrong, 4);
  for (Record& record : small.plan().source.records) record.crc32.reset();
  Conversion conversion(small);
  for (unsigned threads : {1U, 2U, 7U}) {
    EXPECT_THAT(conversion.ErrorOf(Options(threads, 32)),
                AllOf(HasSubstr("element [5, 2] of `exp_avg` of tensor `a` has two values: -23.02"),
                      HasSubstr("in `" + conversion.source() + "/source_tp1_dp0` and 0.5 (0x3f000000) in `" +
                                conversion.source() + "/replica_tp1_dp0`"),
                      HasSubstr("declare the copy as `unused`"), HasSubstr("replicas trust")));
  }
}

// The user believes another rank: differences are counted over all ranges of the target.
TEST(ExecuteTest, E3AReplicaThatIsOverruledIsCountedAndNamed) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}});
  small.AddSource({.tp = 2});
  small.AddSource({}, ReadRole::kCompare, "replica_");
  small.SetTarget({.tp = 2});
  small.Finish();
  std::string& replica = small.source_contents()["replica_tp0_dp0"];
  float wrong = 0.5F;
  for (int element : {5, 6, 23}) {
    std::memcpy(replica.data() + 19 + (2 + element) * 4, &wrong, 4);
  }
  for (Record& record : small.plan().source.records) record.crc32.reset();
  for (PlanRead& read : small.plan().reads) read.is_overruled = read.role == ReadRole::kCompare;
  Conversion conversion(small);
  for (unsigned threads : {1U, 2U, 7U}) {
    ExecutionReport report = llvm::cantFail(conversion.Run(Options(threads, 16)));
    ASSERT_EQ(report.decisions.size(), 1U);
    const RankDecision& decision = report.decisions.front();
    EXPECT_EQ(decision.what, "element [1, 1] of `exp_avg` of tensor `a`");
    EXPECT_EQ(decision.elements, 3U);
    EXPECT_THAT(decision.overruled, HasSubstr("0.5 (0x3f000000)"));
    EXPECT_THAT(decision.overruled_file, HasSubstr("/replica_tp0_dp0"));
    EXPECT_THAT(decision.believed_file, HasSubstr("/source_tp0_dp0"));
  }
  EXPECT_EQ(FilesUnder(conversion.target()), small.ExpectedFiles());
}

TEST(ExecuteTest, E4AFlippedByteIsFoundWhereverItLies) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8}}});
  small.AddSource({.tp = 2, .padding = 1, .dp = 1, .alignment = 8});
  small.SetTarget({});
  small.Finish();
  Conversion conversion(small);
  std::string path = conversion.source() + "/source_tp1_dp0";
  std::string content = ReadTestFile(path);
  const Record& record = small.plan().source.records[2];  // Elements, padding, and what lies between tensors.
  ASSERT_EQ(small.plan().source.file(RecordId(2)).path, "source_tp1_dp0");
  for (std::uint64_t byte = record.begin; byte < record.begin + record.bytes; ++byte) {
    std::string flipped = content;
    flipped[byte] ^= 1;
    WriteTestFile(path, flipped);
    ASSERT_THAT(conversion.ErrorOf(Options(2, 24)),
                AllOf(HasSubstr("`" + path + "` is damaged: bytes 19 to"), HasSubstr("tensors `a`, `b`"),
                      HasSubstr(fmt::format("and the archive says {:08x}", *record.crc32))))
        << byte;
    ExecutionOptions trusting = Options(2, 24);
    trusting.verify_source_crc = false;
    ASSERT_EQ(conversion.ErrorOf(trusting), "no error");
  }
}

TEST(ExecuteTest, E5ASourceThatChangesMeanwhileIsRefused) {
  SmallConversion small = Plain();
  Conversion conversion(small);
  ExecutionOptions options = Options(1, 64);
  options.progress = [&](const ExecutionProgress&) {  // Called first behind the first chunk.
    std::string path = conversion.source() + "/source_tp0_dp0";
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  };
  EXPECT_THAT(conversion.ErrorOf(options), HasSubstr("was changed while it was read"));
}

TEST(ExecuteTest, CancelledBetweenChunks) {
  SmallConversion small = Plain();
  Conversion conversion(small);
  std::atomic<bool> cancelled = false;
  ExecutionOptions options = Options(2, 16);
  options.cancelled = &cancelled;
  options.progress = [&](const ExecutionProgress& progress) {
    EXPECT_LT(progress.bytes_done, progress.bytes_total);
    cancelled = true;
  };
  llvm::Expected<ExecutionReport> report = conversion.Run(options);
  ASSERT_FALSE(static_cast<bool>(report));
  EXPECT_EQ(TakeFailure(report.takeError()).code, ErrorCode::kCancelled);
}

TEST(ExecuteTest, TooLittleMemoryIsRefusedWithTheSizeThatWouldDo) {
  SmallConversion small = Plain();
  Conversion conversion(small);
  ExecutionOptions options = Options(2, 64);
  options.memory_bytes = 1 << 20;
  EXPECT_THAT(conversion.ErrorOf(options), AllOf(HasSubstr("too little"), HasSubstr("raise memory")));
  options.memory_bytes = 64 << 20;
  EXPECT_EQ(conversion.ErrorOf(options), "no error");
}

// G7: what the report says is what the system counted, so nothing is read or written twice.
TEST(ExecuteTest, TheReportIsWhatTheSystemCounted) {
  auto counted = [](const std::string& name) {
    std::istringstream lines(ReadTestFile("/proc/self/io"));
    std::string key;
    std::uint64_t value = 0;
    while (lines >> key >> value) {
      if (key == name) return value;
    }
    return std::uint64_t{0};
  };
  SmallConversion small({{"a", {64, 48}}, {"b", {512}}});
  small.AddSource({.tp = 2, .padding = 1, .dp = 2});
  small.AddSource({.tp = 2, .cut_dim = 1}, ReadRole::kCompare, "replica_");
  small.SetTarget({});
  small.Finish();
  Conversion conversion(small);
  llvm::cantFail(conversion.Run(Options(2, 1000)));  // Warm: locales, thread stacks.

  std::uint64_t before_nothing = counted("rchar:");
  std::ignore = PeakMemoryBytes();  // Execute() reads this once for its report.
  std::uint64_t before_read = counted("rchar:");
  std::uint64_t beside = before_read - before_nothing;
  before_read = counted("rchar:");
  std::uint64_t before_written = counted("wchar:");
  ExecutionReport report = llvm::cantFail(conversion.Run(Options(2, 1000)));
  std::uint64_t written = counted("wchar:") - before_written;
  std::uint64_t read = counted("rchar:") - before_read;
  EXPECT_EQ(report.bytes_written, written);
  // Reading the counters is counted too: their text is a few hundred bytes, three times.
  std::uint64_t reported = report.bytes_copied + report.bytes_compared + report.bytes_checksummed;
  EXPECT_GE(read, reported);
  EXPECT_LE(read, reported + beside + 3 * 300);
  std::uint64_t records = 0;
  for (const Record& record : small.plan().source.records) records += record.bytes;
  EXPECT_EQ(reported, records);
  EXPECT_GT(report.peak_memory_bytes, report.buffer_bytes);
}

}  // namespace
}  // namespace ucp
