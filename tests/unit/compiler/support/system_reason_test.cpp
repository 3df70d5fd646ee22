#include "compiler/support/system_reason.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <system_error>

namespace ucp {
namespace {

TEST(SystemReason, BeginsInLowerCase) {
  EXPECT_EQ(SystemReason(ENOENT), "no such file or directory");
  EXPECT_EQ(SystemReason(EIO), "input/output error");
  EXPECT_EQ(SystemReason(std::make_error_code(std::errc::is_a_directory)), "is a directory");
}

TEST(SystemReason, LeavesAbbreviationsAlone) { EXPECT_EQ(SystemReason(EDOTDOT), "RFS specific error"); }

}  // namespace
}  // namespace ucp
