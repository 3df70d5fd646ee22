// Accidents of tensors: elements exchanged, shifted, zeroed, negated, rounded otherwise, or off by little. That each
// changes the sum cannot fail to be seen with 256 bits; so it is also looked at how often eight bits of each lane,
// taken alone, do not change: once in 256 times, whatever the accident, if the sum is as good as random.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>

#include "runtime/digest/keyed_sum.h"
#include "tests/unit/runtime/digest/random_bytes.h"

namespace ucp {
namespace {

using Random = std::mt19937_64;
using Floats = std::vector<float>;

std::size_t Below(std::size_t count, Random& random) { return random() % count; }

float NextUp(float number) { return std::nextafter(number, std::numeric_limits<float>::infinity()); }

struct Accident {
  const char* name;
  std::function<void(Floats&, Random&)> happen;
};

const std::array kAccidents = {
    Accident{"two elements exchanged",
             [](Floats& x, Random& random) { std::swap(x[Below(x.size(), random)], x[Below(x.size(), random)]); }},
    Accident{"neighbours exchanged",
             [](Floats& x, Random& random) {
               const std::size_t at = Below(x.size() - 1, random);
               std::swap(x[at], x[at + 1]);
             }},
    Accident{"two elements' signs",
             [](Floats& x, Random& random) {
               for (int i = 0; i < 2; ++i) {
                 float& number = x[Below(x.size(), random)];
                 number = -number;
               }
             }},
    Accident{"all signs",
             [](Floats& x, Random&) {
               for (float& number : x) number = -number;
             }},
    Accident{"shifted by one", [](Floats& x, Random&) { std::rotate(x.begin(), x.begin() + 1, x.end()); }},
    Accident{"shifted by a block's places",
             [](Floats& x, Random&) { std::rotate(x.begin(), x.begin() + 1024, x.end()); }},
    Accident{"a range zeroed",
             [](Floats& x, Random& random) {
               const std::size_t at = Below(x.size() - 64, random);
               std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(at), 1 + Below(64, random), 0.0F);
             }},
    Accident{"one off by one ulp",
             [](Floats& x, Random& random) {
               float& number = x[Below(x.size(), random)];
               number = NextUp(number);
             }},
    Accident{"two off by one ulp, one up and one down",
             [](Floats& x, Random& random) {
               const std::size_t at = Below(x.size() - 1, random);
               x[at] = NextUp(x[at]);
               x[at + 1] = std::nextafter(x[at + 1], 0.0F);
             }},
    Accident{"all off by one ulp",
             [](Floats& x, Random&) {
               for (float& number : x) number = NextUp(number);
             }},
    Accident{"blocks exchanged",
             [](Floats& x, Random&) { std::swap_ranges(x.begin(), x.begin() + 1024, x.begin() + 1024); }},
    Accident{"rounded to bfloat16",
             [](Floats& x, Random&) {
               for (float& number : x) {
                 std::uint32_t bits = 0;
                 std::memcpy(&bits, &number, sizeof bits);
                 bits &= 0xFFFF0000;
                 std::memcpy(&number, &bits, sizeof bits);
               }
             }},
};

SumLanes SumOf(const Floats& numbers) {
  KeyedSum sum;
  sum.AddElements(0, sizeof(float), std::as_bytes(std::span(numbers)));
  return sum.lanes;
}

class AccidentsTest : public testing::TestWithParam<std::size_t> {};

TEST_P(AccidentsTest, IsSeenAsByARandomFunction) {
  const Accident& accident = kAccidents[GetParam()];
  Random random(20261125 + GetParam());
  std::normal_distribution<float> normal(0, 0.02F);
  Floats numbers(2048);
  for (float& number : numbers) number = normal(random);
  constexpr int kTrials = 6000;
  constexpr std::array<int, 4> kShifts = {0, 24, 40, 56};  // Of the eight bits in a lane.
  std::array<std::array<int, kShifts.size()>, 4> unchanged{};
  int trials = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    for (int i = 0; i < 3; ++i) numbers[Below(numbers.size(), random)] = normal(random);
    const SumLanes before = SumOf(numbers);
    Floats after_accident = numbers;
    accident.happen(after_accident, random);
    if (std::memcmp(after_accident.data(), numbers.data(), numbers.size() * sizeof(float)) == 0) continue;
    ++trials;
    const SumLanes after = SumOf(after_accident);
    for (std::size_t lane = 0; lane < 4; ++lane) {
      ASSERT_NE(after[lane], before[lane]) << accident.name;
      for (std::size_t s = 0; s < kShifts.size(); ++s) {
        const std::uint64_t change = lane < 2 ? after[lane] - before[lane] : after[lane] ^ before[lane];
        if ((change >> kShifts[s] & 0xFF) == 0) ++unchanged[lane][s];
      }
    }
  }
  ASSERT_GT(trials, kTrials * 9 / 10);
  const double expected = trials / 256.0;
  for (std::size_t lane = 0; lane < 4; ++lane) {
    for (std::size_t s = 0; s < kShifts.size(); ++s) {
      EXPECT_NEAR(unchanged[lane][s], expected, 6 * std::sqrt(expected))
          << accident.name << ": bits " << kShifts[s] << " and on of lane " << lane;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AccidentsTest, testing::Range(std::size_t{0}, kAccidents.size()));

}  // namespace
}  // namespace ucp
