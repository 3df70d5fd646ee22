// The reports of ranks to rank 0 on their loads: each arrives as it was, or is refused.
#include "runtime/driver/load_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

RankLoad SomeLoad() {
  RankLoad load;
  load.rank = 3;
  load.files = 5;
  load.device = "cuda:1";
  load.report.bytes_read = 1000;
  load.report.bytes_received = 70;
  load.report.bytes_from_peers = 60;
  load.report.why_by_hosts = "the reason";
  load.report.seconds = 1.5;
  load.report.is_as_stored = true;
  load.comparison = LoadedComparison{};
  load.comparison->elements = 17;
  load.comparison->first = "the first";
  return load;
}

TEST(LoadReportTest, ArrivesAsItWas) {
  const RankLoad load = llvm::cantFail(DecodeRankLoad(Encode(SomeLoad())));
  EXPECT_EQ(load.rank, 3);
  EXPECT_EQ(load.files, 5u);
  EXPECT_EQ(load.device, "cuda:1");
  EXPECT_EQ(load.report.bytes_read, 1000u);
  EXPECT_EQ(load.report.bytes_received, 70u);
  EXPECT_EQ(load.report.bytes_from_peers, 60u);
  EXPECT_EQ(load.report.why_by_hosts, "the reason");
  EXPECT_DOUBLE_EQ(load.report.seconds, 1.5);
  EXPECT_TRUE(load.report.is_as_stored);
  ASSERT_TRUE(load.comparison);
  EXPECT_EQ(load.comparison->elements, 17u);
  EXPECT_EQ(load.comparison->first, "the first");
}

TEST(LoadReportTest, IsRefusedWhereverItWasCutOff) {
  const std::string bytes = Encode(SomeLoad());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    auto load = DecodeRankLoad(bytes.substr(0, size));
    ASSERT_FALSE(static_cast<bool>(load)) << size;
    EXPECT_EQ(
        TakeFailure(load.takeError()).message,
        fmt::format("a rank sent a report of {} bytes that cannot be read; all ranks must run the same ucp", size));
  }
  auto longer = DecodeRankLoad(bytes + "x");
  ASSERT_FALSE(static_cast<bool>(longer));
  llvm::consumeError(longer.takeError());
}

}  // namespace
}  // namespace ucp
