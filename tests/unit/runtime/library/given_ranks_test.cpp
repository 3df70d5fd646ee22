// The ranks that a caller gives, as the runtime knows ranks: those of threads, and those of MPI when mpirun starts this
// program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/library/given_ranks.h"
#include "tests/unit/runtime/comm/suite.h"
#include "tests/unit/runtime/library/job_of_threads.h"
#ifdef UCP_HAS_MPI
#include "ucp/mpi.h"
#endif

namespace ucp {
namespace {

using testing::IsEmpty;

TEST(GivenRanksTest, None) {
  GivenRanks ranks(nullptr);
  EXPECT_THAT(RunCommunicatorSuite(ranks), IsEmpty());
}

// They have no Deliver() of their own.
TEST(GivenRanksTest, OfThreads) {
  RunJob(3, [](Ranks& given) {
    GivenRanks ranks(&given);
    EXPECT_THAT(RunCommunicatorSuite(ranks), IsEmpty());
  });
}

TEST(GivenRanksTest, OfMpi) {
#ifdef UCP_HAS_MPI
  MPI_Init(nullptr, nullptr);
  {
    MpiRanks given;
    GivenRanks ranks(&given);
    EXPECT_THAT(RunCommunicatorSuite(ranks), IsEmpty());
    // Where one has asked all to stop, others do not see it in what comes later.
    EXPECT_THAT(RunCommunicatorSuite(ranks), IsEmpty());
  }
  MPI_Finalize();
#else
  GTEST_SKIP() << "this build has no MPI";
#endif
}

}  // namespace
}  // namespace ucp
