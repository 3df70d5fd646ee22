// Random conversions against the oracle, for a bounded time, from a printed seed.
#include <gmock/gmock.h>

#include <chrono>

#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::oracle {
namespace {

void ExpectEveryElementArrives(Conversion (*make)(Random&)) {
  std::uint64_t seed = TestSeed();
  testing::Test::RecordProperty("seed", std::to_string(seed));
  std::printf("seed %llu; set UCP_TEST_SEED and UCP_TEST_SECONDS to try more\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  int made = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(TestSeconds());
  while (std::chrono::steady_clock::now() < end) {
    Conversion conversion = make(random);
    AverageSome(conversion, random);
    BelieveSome(conversion, random);
    RoundSome(conversion, random);
    SCOPED_TRACE(ToString(conversion));
    auto compiled = Compile(conversion);
    ASSERT_TRUE(static_cast<bool>(compiled)) << TakeFailure(compiled.takeError()).message;
    ASSERT_EQ(Flaw(*compiled), "");
    ASSERT_EQ(Flaw(*compiled, Pick(random, 1, 7)), "");
    ++made;
  }
  std::printf("%d conversions\n", made);
  EXPECT_GT(made, 0);
}

TEST(PlannerRandomTest, EveryElementArrivesFromWhereItWas) { ExpectEveryElementArrives(RandomConversion); }

TEST(PlannerRandomTest, EveryElementArrivesInFusedShards) { ExpectEveryElementArrives(RandomFusedConversion); }

}  // namespace
}  // namespace ucp::oracle
