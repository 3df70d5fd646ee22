// A job of MPI that goes on after a load has failed: a message of the first load does not stop the next one.
// mpirun starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "ucp/load.h"
#include "ucp/mpi.h"

namespace ucp {
namespace {

const std::string kFixture = std::string(UCP_SOURCE_DIR) + "/tests/fixtures/zero1_dp4/checkpoint";

// Each rank's report of its load, which rank 1 gives up while it reads if it is cancelled: "" if all is well.
std::vector<std::string> LoadOnAll(Ranks& ranks, bool is_cancelled) {
  const std::atomic<bool> cancelled = is_cancelled && ranks.rank() == 1;
  std::string said;
  try {
    ShardLoad load({.path = kFixture}, "deepspeed:dp=3,zero=1", {},
                   {.ranks = &ranks, .threads = 1, .cancelled = &cancelled});
    load.Fill();
  } catch (const Error& error) {
    said = error.what();
  }
  return ranks.AllGather(said);
}

TEST(LibraryMpiTest, LoadsAgainAfterALoadThatFailed) {
  MPI_Init(nullptr, nullptr);
  {
    MpiRanks ranks;
    for (int round = 0; round < 3; ++round) {
      EXPECT_THAT(LoadOnAll(ranks, true), testing::Each("interrupted")) << round;
      EXPECT_THAT(LoadOnAll(ranks, false), testing::Each("")) << round;
    }
  }
  MPI_Finalize();
}

}  // namespace
}  // namespace ucp
