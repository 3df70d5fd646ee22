// What ranks give all others, for the ranks of tests and for those of MPI, when mpirun starts this program.
#include <gtest/gtest.h>

#include "runtime/comm/launcher.h"
#include "tests/unit/runtime/comm/gather_conformance.h"
#include "tests/unit/runtime/comm/thread_ranks.h"

namespace ucp {
namespace {

TEST(GatherTest, OfThreads) { OnRanks(3, CheckGathers); }

TEST(GatherTest, OfAProcessAlone) { CheckGathers(SingleProcess()); }

TEST(GatherTest, OfMpi) {
  Communicator& ranks = *llvm::cantFail(RanksOfThisRun());
  if (ranks.size() == 1) GTEST_SKIP() << "mpirun did not start this";
  CheckGathers(ranks);
  LeaveRanks();
}

}  // namespace
}  // namespace ucp
