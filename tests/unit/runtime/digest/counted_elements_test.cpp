#include "runtime/digest/counted_elements.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::oracle {
namespace {

// How often each element was counted, by its identity.
using Counts = std::map<Element, int>;

std::int64_t StateNumber(const std::string& state) {
  if (state == "exp_avg") return 0;
  return state == "fp32" ? 1 : 2;
}

std::int64_t TensorNumber(const Plan& plan, TensorId tensor) {
  return std::stoll(plan.tensor(tensor).logical.name.substr(1));
}

// Counts the elements that a range counts, and checks in the target's memory that each is the element it should be.
void Count(const Compiled& compiled, const CountedElements& counted, const TargetRange& range, Counts& counts) {
  counted.ForEachRun(range, [&](const CountedRun& run) {
    ASSERT_GE(run.local, range.begin);
    ASSERT_LE(run.local + run.elements, range.end);
    for (std::int64_t i = 0; i < run.elements; ++i) {
      Element said = Identity(StateNumber(range.state), TensorNumber(compiled.plan, run.tensor), run.logical + i);
      auto place = static_cast<std::size_t>(range.record_element + run.local - range.begin + i);
      ASSERT_EQ(Spell(compiled.target.memory[range.record.index()][place]), Spell(said));
      ++counts[said];
    }
  });
}

// Ranges are taken whole, or in parts of `chunk` elements.
Counts CountAll(const Compiled& compiled, std::int64_t chunk) {
  CountedElements counted(compiled.plan);
  Counts counts;
  ForEachTargetRange(compiled.plan, [&](const TargetRange& whole) {
    for (std::int64_t begin = whole.begin; begin < whole.end; begin += chunk == 0 ? whole.end - whole.begin : chunk) {
      TargetRange part = whole;
      part.record_element += begin - whole.begin;
      part.begin = begin;
      part.end = chunk == 0 ? whole.end : std::min(whole.end, begin + chunk);
      Count(compiled, counted, part, counts);
    }
  });
  return counts;
}

Counts EveryElementOnce(const Plan& plan) {
  Counts counts;
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const LogicalTensor& tensor = plan.tensors[t].logical;
    std::int64_t elements = 1;
    for (std::int64_t length : tensor.shape) elements *= length;
    for (const LogicalTensor::State& state : tensor.states) {
      for (std::int64_t i = 0; i < elements; ++i) {
        counts[Identity(StateNumber(state.name), std::stoll(tensor.name.substr(1)), i)] = 1;
      }
    }
  }
  return counts;
}

TEST(CountedElementsTest, EachElementOfEachTensorOnceWhereItIs) {
  std::uint64_t seed = TestSeed();
  std::printf("seed %llu; set UCP_TEST_SEED and UCP_TEST_SECONDS to try more\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  int made = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(TestSeconds());
  while (std::chrono::steady_clock::now() < end) {
    Conversion conversion = Pick(random, 0, 1) == 0 ? RandomConversion(random) : RandomFusedConversion(random);
    SCOPED_TRACE(ToString(conversion));
    auto compiled = Compile(conversion);
    ASSERT_TRUE(static_cast<bool>(compiled)) << TakeFailure(compiled.takeError()).message;
    ASSERT_EQ(CountAll(*compiled, 0), EveryElementOnce(compiled->plan));
    ASSERT_EQ(CountAll(*compiled, Pick(random, 1, 7)), EveryElementOnce(compiled->plan));
    ++made;
  }
  std::printf("%d conversions\n", made);
  EXPECT_GT(made, 0);
}

}  // namespace
}  // namespace ucp::oracle
