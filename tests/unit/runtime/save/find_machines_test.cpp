#include "runtime/save/find_machines.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "compiler/support/error.h"
#include "tests/unit/runtime/comm/denied_call.h"
#include "tests/unit/runtime/comm/thread_ranks.h"

namespace ucp {
namespace {

TEST(FindMachinesTest, OneMachineOpensNoPort) {
  ASSERT_EQ(::setenv("UCP_MACHINE", "a", 1), 0);
  OnRanks(2, [](Communicator& ranks) {
    ASSERT_TRUE(DenyCall(SYS_socket, EMFILE));
    ASSERT_EQ(::socket(AF_INET, SOCK_STREAM, 0), -1);
    llvm::Expected<std::unique_ptr<SocketRanks>> machines = MeetMachines(ranks);
    ASSERT_TRUE(static_cast<bool>(machines)) << TakeFailure(machines.takeError()).message;
    ASSERT_EQ(*machines != nullptr, ranks.rank() == 0);
    if (*machines == nullptr) return;
    EXPECT_EQ((*machines)->size(), 1);
    EXPECT_STREQ((*machines)->noun(), "machine");
    (*machines)->Leave();
  });
  ASSERT_EQ(::unsetenv("UCP_MACHINE"), 0);
}

}  // namespace
}  // namespace ucp
