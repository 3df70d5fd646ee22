#include "compiler/support/checked_math.h"

#include <gtest/gtest.h>

#include "compiler/support/typed_id.h"

namespace ucp {
namespace {

constexpr std::int64_t kMost = INT64_MAX;

TEST(CheckedMathTest, GivesTheResultOrNothing) {
  EXPECT_EQ(CheckedAdd(kMost - 1, 1), kMost);
  EXPECT_EQ(CheckedAdd(kMost, 1), std::nullopt);
  EXPECT_EQ(CheckedSubtract(INT64_MIN, 1), std::nullopt);
  EXPECT_EQ(CheckedSubtract(2, 3), -1);
  EXPECT_EQ(CheckedMultiply(kMost / 2, 2), kMost - 1);
  EXPECT_EQ(CheckedMultiply(kMost / 2 + 1, 2), std::nullopt);
  EXPECT_EQ(CheckedMultiply(INT64_MIN, -1), std::nullopt);
}

TEST(CheckedMathTest, CeilDivideRoundsUpWithoutOverflow) {
  EXPECT_EQ(CeilDivide(0, 3), 0);
  EXPECT_EQ(CeilDivide(6, 3), 2);
  EXPECT_EQ(CeilDivide(7, 3), 3);
  EXPECT_EQ(CeilDivide(kMost, 1), kMost);
  EXPECT_EQ(CeilDivide(kMost, kMost), 1);
}

TEST(TypedIdTest, PrintsAsItsNumberAndCompares) {
  using Id = TypedId<struct SomeTag>;
  EXPECT_EQ(fmt::format("{}", Id(7)), "7");
  EXPECT_LT(Id(1), Id(2));
  EXPECT_EQ(Id().index(), 0u);
}

}  // namespace
}  // namespace ucp
