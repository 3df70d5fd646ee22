// An attacker who chooses the elements: small changes of some dozens of them, found by lattice reduction, make up for a
// large change of one. It breaks version 1 in a moment, and comes to nothing with version 2.
#include "tests/unit/runtime/digest/lattice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "runtime/digest/keyed_sum.h"

namespace ucp {
namespace {

using Words = std::vector<std::uint32_t>;

// Each word in another block of places, whose keys are wide also in version 1; nothing is between them.
constexpr std::uint64_t kDistance = 257;

KeyedSum SumOf(const Words& words, DigestVersion version) {
  KeyedSum sum{version, {}};
  for (std::size_t i = 0; i < words.size(); ++i) {
    sum.AddElements(i * kDistance, sizeof(words[i]), std::as_bytes(std::span(&words[i], 1)));
  }
  return sum;
}

// Weights as a model has them.
Words RandomWeights(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.02F);
  Words words(count);
  for (std::uint32_t& word : words) word = std::bit_cast<std::uint32_t>(normal(random));
  return words;
}

// The change of the sums if one word changes, lane by lane; exclusive-ors cannot be written like that.
std::vector<std::uint64_t> Change(const Words& words, std::size_t number, std::uint32_t to, DigestVersion version) {
  Words changed = words;
  changed[number] = to;
  const KeyedSum before = SumOf(words, version);
  const KeyedSum after = SumOf(changed, version);
  std::vector<std::uint64_t> change;
  for (std::size_t lane = 0; lane < (version == DigestVersion::kLinear ? 4 : 2); ++lane) {
    change.push_back(after.lanes[lane] - before.lanes[lane]);
  }
  return change;
}

// The sum of small multiples of two of the vectors; empty if none begins with 1.
IntegerVector ThatBeginsWithOne(const std::vector<IntegerVector>& basis) {
  for (const IntegerVector& a : basis) {
    for (const IntegerVector& b : basis) {
      for (std::int64_t times_a : {1, -1, 2, -2}) {
        for (std::int64_t times_b : {0, 1, -1, 2, -2}) {
          if (times_a * a[0] + times_b * b[0] != 1) continue;
          IntegerVector sum = a;
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = times_a * a[i] + times_b * b[i];
          return sum;
        }
      }
    }
  }
  return {};
}

// The first word becomes 1000.0, and the others change by so many units in the last place as a reduced lattice says.
Words Attack(const Words& words, DigestVersion version) {
  constexpr float kWanted = 1000;
  std::vector<std::vector<std::uint64_t>> changes = {Change(words, 0, std::bit_cast<std::uint32_t>(kWanted), version)};
  for (std::size_t i = 1; i < words.size(); ++i) changes.push_back(Change(words, i, words[i] + 1, version));
  const IntegerVector x = ThatBeginsWithOne(ShortRelations(changes));
  if (x.empty()) return {};
  Words forged = words;
  forged[0] = std::bit_cast<std::uint32_t>(kWanted);
  for (std::size_t i = 1; i < words.size(); ++i) forged[i] += static_cast<std::uint32_t>(x[i]);
  return forged;
}

void Print(const char* name, const Words& words) {
  std::printf("%s = \"", name);
  for (std::uint32_t word : words) std::printf("%08x", word);
  std::printf("\"\n");
}

TEST(LatticeTest, BreaksVersionOne) {
  const Words words = RandomWeights(72, 1);
  const Words forged = Attack(words, DigestVersion::kLinear);
  ASSERT_EQ(forged.size(), words.size());
  EXPECT_EQ(std::bit_cast<float>(forged[0]), 1000.0F);
  for (std::size_t i = 1; i < words.size(); ++i) {
    EXPECT_NEAR(std::bit_cast<float>(forged[i]), std::bit_cast<float>(words[i]), 1e-4);
  }
  EXPECT_EQ(SumOf(forged, DigestVersion::kLinear), SumOf(words, DigestVersion::kLinear));
  EXPECT_NE(SumOf(forged, DigestVersion::kKeyed), SumOf(words, DigestVersion::kKeyed));
  if (std::getenv("UCP_PRINT_COLLISION") == nullptr) return;  // For tests/programs/linear_collision.py.
  Print("WEIGHTS", words);
  Print("FORGED", forged);
}

// The change of the sums is not a multiple of anything: each change of each word is a number of its own.
TEST(LatticeTest, ComesToNothingWithVersionTwo) {
  int attacks = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Words words = RandomWeights(72, seed);
    const Words forged = Attack(words, DigestVersion::kKeyed);
    if (forged.empty()) continue;
    ++attacks;
    const KeyedSum right = SumOf(words, DigestVersion::kKeyed);
    const KeyedSum sum = SumOf(forged, DigestVersion::kKeyed);
    for (std::size_t lane = 0; lane < 4; ++lane) EXPECT_NE(sum.lanes[lane], right.lanes[lane]);
  }
  EXPECT_GT(attacks, 0);
}

// One change of each word is linear in whether it is made: two tensors collide if each word is changed in the one, the
// other, or neither, and the changes cancel. A relation of numbers no larger than 1 would be such a pair. Reduction
// finds some for sums of 32 bits, and none for those of version 2, though the exclusive-ors are left out here.
TEST(LatticeTest, ChoosingWhichWordsChangeComesToNothingEither) {
  auto are_choices = [](const IntegerVector& x) {
    return std::all_of(x.begin(), x.end(), [](std::int64_t number) { return std::abs(number) <= 1; });
  };
  const Words words = RandomWeights(100, 7);
  std::vector<std::vector<std::uint64_t>> changes;
  std::vector<std::vector<std::uint64_t>> half;
  for (std::size_t i = 0; i < words.size(); ++i) {
    changes.push_back(Change(words, i, words[i] + 1, DigestVersion::kKeyed));
    half.push_back({changes.back()[0] << 32});
  }
  const std::vector<IntegerVector> relations = ShortRelations(changes);
  EXPECT_TRUE(std::none_of(relations.begin(), relations.end(), are_choices));
  const std::vector<IntegerVector> of_half = ShortRelations(half);
  EXPECT_TRUE(std::any_of(of_half.begin(), of_half.end(), are_choices));
}

}  // namespace
}  // namespace ucp
