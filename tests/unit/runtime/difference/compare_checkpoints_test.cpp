// Two checkpoints that are cut differently, and of which every element is known.
#include "runtime/difference/compare_checkpoints.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/verifier/verifier.h"
#include "runtime/engine/buffers.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A checkpoint on disk, and the plan that gathers it.
class Side {
 public:
  explicit Side(const SmallCut& cut, std::int64_t terms = 1) : small_({{"a", {600, 4}}, {"b", {8}}, {"c", {4, 6, 2}}}) {
    for (PlanTensor& tensor : small_.plan().tensors) tensor.arithmetic.terms = terms;
    for (std::int64_t term = 0; term < terms; ++term) {
      SmallCut source = cut;
      source.term = term;
      small_.AddSource(source, ReadRole::kCopy, fmt::format("term{}_", term));
    }
    small_.SetTarget({});
    small_.Finish();
    small_.WriteSource(folder_.path());
    if (llvm::Error error = VerifyPlan(small_.plan())) ADD_FAILURE() << TakeFailure(std::move(error)).message;
    tensors_ = WholeTensorsOf(small_.plan());
  }

  ComparedCheckpoint checkpoint() { return {small_.plan(), folder_.path()}; }
  const std::vector<WholeTensor>& tensors() const { return tensors_; }
  std::string Path(const std::string& name) const { return folder_.Path(name); }

 private:
  SmallConversion small_;
  ScratchFolder folder_;
  std::vector<WholeTensor> tensors_;
};

std::vector<StatePair> AllPairs(const Side& a, const Side& b) {
  std::vector<StatePair> all;
  for (const TensorPair& pair : PairStates({a.tensors()}, {b.tensors()})) {
    all.insert(all.end(), pair.states.begin(), pair.states.end());
  }
  return all;
}

llvm::Expected<std::vector<Difference>> Compare(Side& a, Side& b, unsigned threads, std::uint64_t chunk_bytes) {
  ExecutionOptions options;
  options.threads = threads;
  options.most_chunk_bytes = chunk_bytes;
  return CompareCheckpoints(RealFileSystem(), a.checkpoint(), b.checkpoint(), AllPairs(a, b), options);
}

TEST(CompareCheckpointsTest, TheSameCutDifferentlyIsTheSame) {
  for (Spread spread : {Spread::kAcrossBuffer, Spread::kEachTensor}) {
    Side a({.tp = 2, .cut_dim = 0, .dp = 3, .spread = spread});
    Side b({.tp = 2, .cut_dim = -1, .padding = 3, .alignment = 8, .transposed = true}, 2);
    auto differences = Compare(a, b, 2, 4096);
    ASSERT_TRUE(static_cast<bool>(differences)) << TakeFailure(differences.takeError()).message;
    ASSERT_EQ(differences->size(), 6U);
    for (const Difference& difference : *differences) {
      EXPECT_EQ(difference.elements, 0U);
      EXPECT_GT(difference.squares_of_a, 0);
    }
  }
}

TEST(CompareCheckpointsTest, DifferencesAreWhatTheyAreOnAnyNumberOfThreads) {
  Side a({.tp = 2, .cut_dim = 0, .dp = 3});
  Side b({.tp = 2, .cut_dim = 1, .fused = true, .plus = 0.375F});
  for (auto [threads, chunk_bytes] : {std::pair(1U, 1U << 20), {1U, 4096U}, {3U, 8192U}}) {
    auto differences = Compare(a, b, threads, chunk_bytes);
    ASSERT_TRUE(static_cast<bool>(differences)) << TakeFailure(differences.takeError()).message;
    const std::vector<std::int64_t> sizes{2400, 8, 48};
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      for (std::size_t s = 0; s < 2; ++s) {
        const Difference& found = (*differences)[2 * t + s];
        double squares = 0;
        double largest = 0;
        for (std::int64_t i = 0; i < sizes[t]; ++i) {
          const float value = SmallConversion::Value(t, s == 0 ? "exp_avg" : "fp32", i);
          const double difference = static_cast<double>(value) - static_cast<double>(value + 0.375F);
          squares += difference * difference;
          largest = std::max(largest, std::abs(difference));
        }
        EXPECT_EQ(found.elements, static_cast<std::uint64_t>(sizes[t]));
        EXPECT_NEAR(found.squares, squares, squares * 1e-12);
        EXPECT_EQ(found.largest, largest);
        EXPECT_EQ(found.first.place, 0);
      }
    }
    auto again = Compare(a, b, 2, 1 << 16);
    ASSERT_TRUE(static_cast<bool>(again));
    for (std::size_t i = 0; i < again->size(); ++i) EXPECT_EQ((*again)[i].squares, (*differences)[i].squares);
  }
}

TEST(CompareCheckpointsTest, DamageIsAnError) {
  Side a({});
  Side b({});
  const std::string path = b.Path(b.checkpoint().plan.source.files[0].path);
  std::string content = ReadTestFile(path);
  content[content.size() / 2] ^= 1;
  WriteTestFile(path, content);
  auto differences = Compare(a, b, 1, 4096);
  ASSERT_FALSE(static_cast<bool>(differences));
  EXPECT_EQ(TakeFailure(differences.takeError()).code, ErrorCode::kBadData);
}

TEST(CompareCheckpointsTest, TheLeastMemoryIsThatOfOneProgram) {
  Side a({.tp = 2, .cut_dim = 0, .dp = 3});
  Side b({.tp = 2, .cut_dim = 1, .fused = true}, 2);
  const std::uint64_t larger = std::max(MemoryNeeded(a.checkpoint().plan, 2), MemoryNeeded(b.checkpoint().plan, 2));
  const std::uint64_t needed = MemoryToCompare(a.checkpoint().plan, b.checkpoint().plan, 2);
  EXPECT_EQ(needed, 2 * larger - kProgramBytes);
  ExecutionOptions options;
  options.threads = 2;
  for (const std::uint64_t memory_bytes : {needed, needed - 1, std::uint64_t{1}}) {
    options.memory_bytes = memory_bytes;
    auto differences = CompareCheckpoints(RealFileSystem(), a.checkpoint(), b.checkpoint(), AllPairs(a, b), options);
    EXPECT_EQ(static_cast<bool>(differences), memory_bytes == needed);
    if (!differences) {
      EXPECT_THAT(TakeFailure(differences.takeError()).message,
                  AllOf(HasSubstr(HumanBytes(memory_bytes) + " of memory is too little to compare these checkpoints"),
                        HasSubstr(fmt::format("({} bytes); raise memory or lower threads", needed))));
    }
  }
}

TEST(CompareCheckpointsTest, ItCanBeStopped) {
  Side a({});
  const std::atomic<bool> cancelled = true;
  ExecutionOptions options;
  options.cancelled = &cancelled;
  auto differences = CompareCheckpoints(RealFileSystem(), a.checkpoint(), a.checkpoint(), AllPairs(a, a), options);
  ASSERT_FALSE(static_cast<bool>(differences));
  EXPECT_EQ(TakeFailure(differences.takeError()).code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace ucp
