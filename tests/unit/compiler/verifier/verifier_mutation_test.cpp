// Whatever is made wrong in a sound plan: the verifier refuses it, or it still does what it says.
#include <gmock/gmock.h>

#include <chrono>

#include "compiler/support/error.h"
#include "tests/unit/compiler/verifier/mutation.h"

namespace ucp::oracle {
namespace {

TEST(VerifierMutationTest, RefusesOrDoesWhatThePlanSays) {
  std::uint64_t seed = TestSeed();
  std::printf("seed %llu; set UCP_TEST_SEED and UCP_TEST_SECONDS to try more\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  int refusals = 0;
  int accepted = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(TestSeconds());
  while (std::chrono::steady_clock::now() < end) {
    Conversion conversion = Pick(random, 0, 1) == 0 ? RandomConversion(random) : RandomFusedConversion(random);
    AverageSome(conversion, random);
    RoundSome(conversion, random);
    auto compiled = Compile(conversion);
    if (!compiled) {
      llvm::consumeError(compiled.takeError());
      continue;
    }
    SCOPED_TRACE(ToString(conversion));
    for (int i = 0; i < 60; ++i) {
      Plan plan = compiled->plan;
      std::string what = Damage(plan, random);
      bool refused = false;
      ASSERT_EQ(WronglyAccepted(plan, refused), "") << "after damage to " << what;
      (refused ? refusals : accepted)++;
    }
  }
  std::printf("%d damaged plans refused, %d still do what they say\n", refusals, accepted);
  EXPECT_GT(refusals, accepted);
}

}  // namespace
}  // namespace ucp::oracle
