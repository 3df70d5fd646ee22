// A job of MPI that goes on after a load has failed: the next one is not told to stop by what was said in the first.
// mpirun starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "ucp/load.h"
#include "ucp/mpi.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kFixture = std::string(UCP_SOURCE_DIR) + "/tests/fixtures/zero1_dp4/checkpoint";

// Made by rank 0: the fixture, with a flipped bit in the middle of each optimizer file, and where that is.
class DamagedCopy {
 public:
  DamagedCopy() : path_((fs::temp_directory_path() / ("ucp-mpi-" + std::to_string(getpid()))).string()) {
    fs::copy(kFixture, path_, fs::copy_options::recursive);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path_)) {
      if (!entry.path().string().ends_with("optim_states.pt")) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto middle = static_cast<std::streamoff>(entry.file_size() / 2);
      file.seekg(middle);
      const char byte = static_cast<char>(file.get());
      file.seekp(middle);
      file.put(static_cast<char>(byte ^ 1));
    }
  }
  DamagedCopy(const DamagedCopy&) = delete;
  DamagedCopy& operator=(const DamagedCopy&) = delete;
  ~DamagedCopy() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// What each rank says of its load: "" if all is well.
std::vector<std::string> LoadOnAll(Ranks& ranks, const std::string& path) {
  std::string said;
  try {
    ShardLoad load({.path = path}, "deepspeed:dp=3,zero=1", {}, {.ranks = &ranks, .verify = true, .threads = 1});
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
    std::unique_ptr<DamagedCopy> damaged;
    if (ranks.rank() == 0) damaged = std::make_unique<DamagedCopy>();
    const std::string path = ranks.AllGather(damaged != nullptr ? damaged->path() : "").front();
    for (int round = 0; round < 3; ++round) {
      EXPECT_THAT(LoadOnAll(ranks, path), testing::Each(HasSubstr("is damaged"))) << round;
      EXPECT_THAT(LoadOnAll(ranks, kFixture), testing::Each("")) << round;
    }
    ranks.AllGather("");  // Rank 0 removes what all have read.
  }
  MPI_Finalize();
}

}  // namespace
}  // namespace ucp
