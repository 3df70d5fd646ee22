// A visitor sees every element of the target once, whatever the threads and chunks.
#include "runtime/executor/visit_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "compiler/support/error.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

SmallConversion Merged() {
  SmallConversion small({{"a", {8, 6}}, {"b", {7}}, {"c", {5, 4}}});
  small.AddSource({.tp = 2, .dp = 2});
  small.SetTarget({.tp = 1});
  small.Finish();
  return small;
}

class VisitTest : public testing::Test {
 protected:
  // The bytes of the target's files where a visitor saw elements, and zeros elsewhere.
  std::map<std::string, std::string> Seen(SmallConversion& small, unsigned threads, std::uint64_t chunk_bytes) {
    const Plan& plan = small.plan();
    std::map<std::string, std::string> seen;
    for (const StoredFile& file : plan.target.files) seen[file.path] = std::string(file.bytes, '\0');
    std::map<std::string, std::string> times = seen;
    std::mutex mutex;
    auto visit = [&](const TargetRange& range, std::span<const std::byte> bytes) {
      std::scoped_lock lock(mutex);
      const std::string& path = plan.target.file(range.record).path;
      const std::uint64_t begin = plan.target.record(range.record).begin +
                                  static_cast<std::uint64_t>(range.record_element * ItemBytes(range.dtype));
      for (std::size_t i = 0; i < bytes.size(); ++i) ++times[path].at(begin + i);
      std::memcpy(seen[path].data() + begin, bytes.data(), bytes.size());
    };
    ExecutionOptions options;
    options.threads = threads;
    options.most_chunk_bytes = chunk_bytes;
    report_ = llvm::cantFail(Visit(plan, folder_.Path("source"), RealFiles(), options, visit));
    for (const auto& [path, counts] : times) {
      EXPECT_THAT(counts, testing::Each(testing::AnyOf('\0', '\1'))) << path;
    }
    return seen;
  }

  std::vector<std::string> Digests() const {
    std::vector<std::string> texts;
    for (const StateDigest& entry : report_.digests) {
      texts.push_back(entry.tensor + " " + entry.state + " " + std::string(Name(entry.dtype)) + " " + entry.digest);
    }
    return texts;
  }

  ScratchFolder folder_;
  EngineReport report_;
};

TEST_F(VisitTest, SeesEveryElementOnce) {
  SmallConversion small = Merged();
  small.WriteSource(folder_.Path("source"));
  std::map<std::string, std::string> expected = small.ExpectedFiles();
  for (unsigned threads : {1u, 3u}) {
    for (std::uint64_t chunk_bytes : {16u, 64u, 1u << 20}) {
      const std::map<std::string, std::string> seen = Seen(small, threads, chunk_bytes);
      std::uint64_t elements = 0;
      for (const auto& [path, bytes] : seen) {
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          if (bytes[i] == '\0') continue;
          ++elements;
          ASSERT_EQ(bytes[i], expected.at(path)[i]) << path << " byte " << i;
        }
      }
      EXPECT_GT(elements, 0u);
      EXPECT_EQ(report_.bytes_copied, 2 * 4 * (8 * 6 + 7 + 5 * 4)) << threads << " " << chunk_bytes;
    }
  }
}

TEST_F(VisitTest, AddsUpTheDigestsOfWhatItSees) {
  SmallConversion small = Merged();
  small.WriteSource(folder_.Path("source"));
  Seen(small, 2, 64);
  EXPECT_EQ(Digests(), small.ExpectedDigests());
}

// More dimensions than small vectors have room for.
TEST_F(VisitTest, ATensorOfTwelveDimensions) {
  SmallConversion small({{"a", {4, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1, 3}}});
  small.AddSource({.tp = 2, .dp = 2});
  small.SetTarget({});
  small.Finish();
  small.WriteSource(folder_.Path("source"));
  Seen(small, 2, 64);
  EXPECT_EQ(Digests(), small.ExpectedDigests());
}

TEST_F(VisitTest, ADamagedSourceIsRefused) {
  SmallConversion small = Merged();
  const Record& record = small.plan().source.records.front();
  small.source_contents()[small.plan().source.file(RecordId(0)).path][record.begin] ^= 1;
  small.WriteSource(folder_.Path("source"));
  ExecutionOptions options;
  llvm::Expected<EngineReport> report = Visit(small.plan(), folder_.Path("source"), RealFiles(), options);
  ASSERT_FALSE(static_cast<bool>(report));
  const FailureText failure = TakeFailure(report.takeError());
  EXPECT_EQ(failure.code, ErrorCode::kBadData);
  EXPECT_THAT(failure.message, testing::HasSubstr("is damaged"));
}

}  // namespace
}  // namespace ucp
