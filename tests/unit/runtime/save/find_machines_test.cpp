#include "runtime/save/find_machines.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>

#include "compiler/support/error.h"
#include "tests/unit/runtime/comm/thread_ranks.h"

namespace ucp {
namespace {

// No file can be opened meanwhile, and so no socket.
TEST(FindMachinesTest, OneMachineOpensNoPort) {
  ASSERT_EQ(::setenv("UCP_MACHINE", "a", 1), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  OnRanks(2, [](Communicator& ranks) {
    llvm::Expected<std::unique_ptr<SocketRanks>> machines = MeetMachines(ranks);
    ASSERT_TRUE(static_cast<bool>(machines)) << TakeFailure(machines.takeError()).message;
    ASSERT_EQ(*machines != nullptr, ranks.rank() == 0);
    if (*machines == nullptr) return;
    EXPECT_EQ((*machines)->size(), 1);
    EXPECT_STREQ((*machines)->noun(), "machine");
    (*machines)->Leave();
  });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(::unsetenv("UCP_MACHINE"), 0);
}

}  // namespace
}  // namespace ucp
