// One conversion as the tests speak of it: how the tensors are cut on either side. Compiling it gives both sides as the
// oracle builds them, and the plan between them.
#pragma once

#include <llvm/Support/Error.h>

#include <random>
#include <string>
#include <vector>

#include "compiler/planner/planner.h"
#include "tests/unit/compiler/planner/oracle.h"

namespace ucp::oracle {

struct Conversion {
  std::vector<TensorCut> source;
  std::vector<TensorCut> target;  // The same tensors.
  Strategy from;
  Strategy to;
  RankPreference preference = {};
};

// "[24@tp] tp=2 flat/3 -> [12@tp * 2] tp=4 each/2": what a failing test prints.
std::string ToString(const Conversion& conversion);

struct Compiled {
  Side source;
  Side target;
  Plan plan;
};

llvm::Expected<Plan> MakePlan(const Side& source, const Side& target, ReplicaPolicy replicas = ReplicaPolicy::kCompare,
                              const RankPreference& preference = {});
llvm::Expected<Compiled> Compile(const Conversion& conversion, ReplicaPolicy replicas = ReplicaPolicy::kCompare);

// Carries the plan out and says what is wrong with the result, or that a pair of flat ranges met in more than
// 2 * rank - 1 boxes, but in fused shards. Empty: nothing.
std::string Flaw(const Compiled& compiled, std::int64_t chunk = 0);

// Random conversions: every rule that cuts, wherever it fits.
using Random = std::mt19937_64;
std::int64_t Pick(Random& random, std::int64_t first, std::int64_t last);
Conversion RandomConversion(Random& random);
// The same of tensors that differ in their first dimensions at most, which are put together to fused shards.
Conversion RandomFusedConversion(Random& random);
// Sometimes believes one rank of the source over others.
void BelieveSome(Conversion& conversion, Random& random);
// Turns some of the source's axes that cut nothing of a tensor into axes over which it is averaged.
void AverageSome(Conversion& conversion, Random& random);
// Makes some of the targets ask for weights, which are cast from the masters.
void RoundSome(Conversion& conversion, Random& random);

// Seconds for each random test: UCP_TEST_SECONDS, else 2. And the seed: UCP_TEST_SEED, else a fixed one.
double TestSeconds();
std::uint64_t TestSeed();

}  // namespace ucp::oracle
