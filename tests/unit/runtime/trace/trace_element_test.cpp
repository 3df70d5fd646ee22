// Every element of conversions that are known element by element is traced, and must be found with its value, in the
// file and at the byte where it is.
#include "runtime/trace/trace_element.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "compiler/support/error.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

std::string BytesOf(float value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string TextOf(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Conversions whose source is on disk.
class Traced {
 public:
  explicit Traced(SmallConversion& small) : small_(small) { small.WriteSource(folder_.path()); }

  ElementTrace Of(std::size_t tensor, const Index& index) {
    auto trace = TraceElement(RealFiles(), folder_.path(), small_.plan(), TensorId(tensor), index);
    if (trace) return *trace;
    ADD_FAILURE() << TakeFailure(trace.takeError()).message;
    return {};
  }

  std::string InSource(const ElementPlace& place) {
    return ReadTestFile(folder_.Path(place.file))
        .substr(place.offset, static_cast<std::size_t>(ItemBytes(place.dtype)));
  }

 private:
  SmallConversion& small_;
  ScratchFolder folder_;
};

// Calls with each index of a shape and its place in row-major order.
template <typename Visit>
void ForEachIndex(const std::vector<std::int64_t>& shape, Visit visit) {
  std::int64_t elements = 1;
  for (std::int64_t length : shape) elements *= length;
  for (std::int64_t flat = 0; flat < elements; ++flat) {
    Index index(shape.size());
    std::int64_t rest = flat;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    visit(index, flat);
  }
}

// Checks the trace of one element of a source of whole float32 values and their bfloat16 weights.
void ExpectRight(SmallConversion& small, const std::string& what) {
  Traced traced(small);
  const std::map<std::string, std::string> expected = small.ExpectedFiles();
  std::set<std::pair<std::string, std::uint64_t>> places;
  for (std::size_t t = 0; t < small.plan().tensors.size(); ++t) {
    ForEachIndex(small.plan().tensors[t].logical.shape, [&](const Index& index, std::int64_t flat) {
      const std::string where = fmt::format("{}, tensor {} [{}]", what, t, fmt::join(index, ", "));
      const ElementTrace trace = traced.Of(t, index);
      std::size_t taken = 0;
      for (const TracedState& state : trace.states) {
        for (const ElementCopy& copy : state.copies) {
          EXPECT_EQ(traced.InSource(copy.place), TextOf(copy.bytes)) << where;
          EXPECT_TRUE(places.emplace(copy.place.file, copy.place.offset).second) << where << ": twice";
          EXPECT_NE(copy.agreement, Agreement::kDiffers) << where;
          if (copy.role != ReadRole::kCheckRounding) {
            EXPECT_EQ(TextOf(copy.bytes), BytesOf(SmallConversion::Value(t, state.state, flat))) << where;
          }
          if (copy.agreement == Agreement::kIsTaken) ++taken;
        }
      }
      EXPECT_EQ(taken, small.plan().tensors[t].logical.states.size()) << where;
      EXPECT_FALSE(trace.written.empty()) << where;
      for (const WrittenElement& written : trace.written) {
        const std::string& file = expected.at(written.place.file);
        EXPECT_EQ(file.substr(written.place.offset, written.bytes.size()), TextOf(written.bytes)) << where;
        EXPECT_TRUE(places.emplace("to " + written.place.file, written.place.offset).second) << where << ": twice";
      }
    });
  }
}

TEST(TraceElementTest, RandomCuts) {
  std::mt19937 random(20261122);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<std::int64_t>(low, high)(random); };
  for (int round = 0; round < 12; ++round) {
    std::vector<SmallTensor> tensors{{"a", {4 * pick(1, 2), 4, 4}}, {"b", {4 * pick(1, 3)}}};
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
    if (testing::Test::HasFailure()) return;
  }
}

TEST(TraceElementTest, TransposedSourcesAndWeightsThatAreMade) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8, 3, 4}}}, {"fp32"});
  small.AddSource({.tp = 2, .cut_dim = 0, .padding = 3, .alignment = 8, .transposed = true});
  small.SetTarget({.tp = 2, .cut_dim = 1, .dp = 2, .weights = true});
  small.Finish();
  ExpectRight(small, "transposed");
}

TEST(TraceElementTest, MeansAndScalesAreWorkedOut) {
  SmallConversion small({{"a", {6}}}, {"fp32"});
  small.plan().tensors[0].arithmetic = {.terms = 2, .divisor = {1, 2}, .factor = {}};
  small.AddSource({});
  small.AddSource({.term = 1, .plus = 4}, ReadRole::kCopy, "other_");
  small.SetTarget({});
  small.Finish();
  Traced traced(small);
  ForEachIndex({6}, [&](const Index& index, std::int64_t flat) {
    const ElementTrace trace = traced.Of(0, index);
    ASSERT_EQ(trace.states.size(), 1U);
    ASSERT_EQ(trace.states[0].copies.size(), 2U);
    const float value = SmallConversion::Value(0, "fp32", flat);
    const float mean = (value + (value + 4)) / 2;
    ASSERT_EQ(trace.written.size(), 1U);
    EXPECT_EQ(TextOf(trace.written[0].bytes), BytesOf(mean / 0.5F));
  });
}

TEST(TraceElementTest, ACopyThatDiffersIsSeen) {
  SmallConversion small({{"a", {6}}}, {"fp32"});
  small.AddSource({});
  small.AddSource({.plus = 1}, ReadRole::kCompare, "replica_");
  small.AddSource({.times = 3}, ReadRole::kCheckRounding, "weight_");
  small.SetTarget({});
  small.Finish();
  Traced traced(small);
  for (const TracedState& state : traced.Of(0, {4}).states) {
    for (const ElementCopy& copy : state.copies) {
      EXPECT_EQ(copy.agreement, copy.role == ReadRole::kCopy ? Agreement::kIsTaken : Agreement::kDiffers);
    }
  }
}

TEST(TraceElementTest, AFileThatIsGoneIsAnError) {
  SmallConversion small({{"a", {6}}}, {"fp32"});
  small.AddSource({});
  small.SetTarget({});
  small.Finish();
  ScratchFolder empty;
  auto trace = TraceElement(RealFiles(), empty.path(), small.plan(), TensorId(0), {1});
  ASSERT_FALSE(static_cast<bool>(trace));
  EXPECT_EQ(TakeFailure(trace.takeError()).code, ErrorCode::kIo);
}

}  // namespace
}  // namespace ucp
