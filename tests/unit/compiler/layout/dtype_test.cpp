#include "compiler/layout/dtype.h"

#include <gtest/gtest.h>

namespace ucp {
namespace {

TEST(DTypeTest, EveryNameIsFoundAgain) {
  for (int i = 0; i <= static_cast<int>(DType::kFloat8E5M2FNUZ); ++i) {
    auto dtype = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
  }
  EXPECT_EQ(DTypeFromName("float"), std::nullopt);
}

TEST(DTypeTest, ItemsAreAsLongAsTheirNamesSay) {
  EXPECT_EQ(ItemBytes(DType::kBool), 1);
  EXPECT_EQ(ItemBytes(DType::kBFloat16), 2);
  EXPECT_EQ(ItemBytes(DType::kFloat32), 4);
  EXPECT_EQ(ItemBytes(DType::kInt64), 8);
  EXPECT_EQ(ItemBytes(DType::kComplex128), 16);
  EXPECT_EQ(ItemBytes(DType::kFloat8E4M3FN), 1);
}

}  // namespace
}  // namespace ucp
