#include "compiler/support/parse_rate.h"

#include <gtest/gtest.h>

namespace ucp {
namespace {

TEST(ParseRateTest, BitsAndBytes) {
  EXPECT_DOUBLE_EQ(*ParseRate("400Gb/s"), 50e9);
  EXPECT_DOUBLE_EQ(*ParseRate("400Gbit/s"), 50e9);
  EXPECT_DOUBLE_EQ(*ParseRate("12.5Gbps"), 12.5e9 / 8);
  EXPECT_DOUBLE_EQ(*ParseRate("50GB/s"), 50e9);
  EXPECT_DOUBLE_EQ(*ParseRate("1.5GiB/s"), 1.5 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(*ParseRate("2MiB/s"), 2.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(*ParseRate("100kB/s"), 1e5);
}

TEST(ParseRateTest, NothingElse) {
  for (const char* text : {"", "400", "400G", "0Gb/s", "-1Gb/s", "400gb/s", "400Gb", "Gb/s", "400 Gb/s", "nanGb/s",
                           "infGb/s", "1e999Gb/s", "400Gb/s "}) {
    EXPECT_FALSE(ParseRate(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace ucp
