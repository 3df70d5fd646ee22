// Random conversions against the oracle, for a bounded time, from a printed seed.
#include <gmock/gmock.h>

#include <chrono>

#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::oracle {
namespace {

TEST(PlannerRandomTest, EveryElementArrivesFromWhereItWas) {
  std::uint64_t seed = TestSeed();
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed %llu; set UCP_TEST_SEED and UCP_TEST_SECONDS to try more\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  int made = 0;
  int refused_target = 0;
  int refused_source = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(TestSeconds());
  while (std::chrono::steady_clock::now() < end) {
    Conversion conversion = RandomConversion(random);
    SCOPED_TRACE(ToString(conversion));
    bool partial = HasPartialReplicas(conversion.target, conversion.to.mesh);
    auto compiled = Compile(conversion);
    if (!compiled) {
      FailureText failure = Describe(compiled.takeError());
      if (failure.code == ErrorCode::kUnsupported) {
        ASSERT_THAT(failure.message, testing::HasSubstr("overlap in part in two dimensions"));
        ++refused_source;
        continue;
      }
      ASSERT_THAT(failure.message, testing::HasSubstr("is in two shards of the target"));
      ASSERT_TRUE(partial);
      ++refused_target;
      continue;
    }
    ASSERT_FALSE(partial);
    ++made;
    ASSERT_EQ(Flaw(*compiled), "");
    ASSERT_EQ(Flaw(*compiled, Pick(random, 1, 7)), "");
  }
  std::printf("%d conversions; %d targets and %d sources with partial replicas refused\n", made, refused_target,
              refused_source);
  EXPECT_GT(made, refused_target + refused_source);
}

}  // namespace
}  // namespace ucp::oracle
