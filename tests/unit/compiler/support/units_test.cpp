#include "compiler/support/units.h"

#include <gtest/gtest.h>

namespace ucp {
namespace {

TEST(UnitsTest, BytesAsPeopleReadThem) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.00 KB");
  EXPECT_EQ(HumanBytes(3'400'000), "3.40 MB");
  EXPECT_EQ(HumanBytes(999'999), "1.00 MB");
  EXPECT_EQ(HumanBytes(12'300'000'000), "12.3 GB");
  EXPECT_EQ(HumanBytes(UINT64_MAX), "18.4 EB");
}

TEST(UnitsTest, ThousandsAreSetApart) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(12'288), "12,288");
  EXPECT_EQ(WithThousands(1'000'000), "1,000,000");
  EXPECT_EQ(Counted(0, "element"), "0 elements");
  EXPECT_EQ(Counted(1, "element"), "1 element");
  EXPECT_EQ(Counted(12'288, "element"), "12,288 elements");
}

TEST(UnitsTest, RatesAreNeverNothing) {
  EXPECT_EQ(HumanRate(1.254e9), "1.25 GB/s");
  EXPECT_EQ(HumanRate(10e6), "0.01 GB/s");
  EXPECT_EQ(HumanRate(8.4e6), "8.40 MB/s");
}

TEST(UnitsTest, ParsesByteCounts) {
  EXPECT_EQ(ParseByteCount("4096"), 4096u);
  EXPECT_EQ(ParseByteCount("64MiB"), 64u << 20);
  EXPECT_EQ(ParseByteCount("1GiB"), 1u << 30);
  EXPECT_EQ(ParseByteCount("500MB"), 500'000'000u);
  EXPECT_EQ(ParseByteCount("75.2GB"), 75'200'000'000u);
  EXPECT_EQ(ParseByteCount("0.5KiB"), 512u);
  EXPECT_EQ(ParseByteCount("100kB"), 100'000u);
  EXPECT_EQ(ParseByteCount("1mib"), 1u << 20);
  for (const char* wrong : {"", "0", "-1", "1.GB", ".5GB", "1.5e3GB", "0.0GB", "1 GB", "GB", "1XB", "99999999999TiB",
                            "99999999999999999999"}) {
    EXPECT_EQ(ParseByteCount(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace ucp
