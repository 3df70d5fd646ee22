// Jobs of MPI: one that goes on after a load has failed, when a message of the first load does not stop the next one,
// and one whose machines keep what they save. mpirun starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <numeric>
#include <system_error>

#include "tests/unit/runtime/library/thrown.h"
#include "ucp/convert.h"
#include "ucp/load.h"
#include "ucp/load_into.h"
#include "ucp/mpi.h"
#include "ucp/save.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<float>;

class Mpi : public testing::Environment {
 public:
  void SetUp() override { MPI_Init(nullptr, nullptr); }
  // A rank that has failed may have left others waiting for it.
  void TearDown() override {
    if (testing::UnitTest::GetInstance()->Failed()) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
  }
};
[[maybe_unused]] const testing::Environment* const mpi = testing::AddGlobalTestEnvironment(new Mpi);

// Each rank's report of its load, which rank 1 gives up while it reads if it is cancelled: "" if all is well.
std::vector<std::string> LoadOnAll(Ranks& ranks, bool is_cancelled) {
  const std::atomic<bool> cancelled = is_cancelled && ranks.rank() == 1;
  std::string said;
  try {
    ShardLoad load(Fixture("zero1_dp4"), "deepspeed:dp=3,zero=1", {},
                   {.ranks = &ranks, .threads = 1, .cancelled = &cancelled});
    load.Fill();
  } catch (const Error& error) {
    said = error.what();
  }
  return ranks.AllGather(said);
}

TEST(LibraryMpiTest, LoadsAgainAfterALoadThatFailed) {
  MpiRanks ranks;
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(LoadOnAll(ranks, true), testing::Each("interrupted")) << round;
    EXPECT_THAT(LoadOnAll(ranks, false), testing::Each("")) << round;
  }
}

// From now on this thread, and the processes that it starts, see the folder `disk` at the path `here`. Only root may do
// so.
bool Mount(const fs::path& disk, const fs::path& here) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(disk.c_str(), here.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

// The folder of a test, which rank 0 makes with a folder for the disk of each machine, and removes.
class SharedFolder {
 public:
  explicit SharedFolder(Ranks& ranks) {
    if (ranks.rank() == 0) {
      made_ = fs::temp_directory_path() / ("ucp-library-mpi-test-" + std::to_string(::getpid()));
      for (const char* name : {"here", "a", "b"}) fs::create_directories(made_ / name);
    }
    path = ranks.AllGather(made_.string()).front();
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() {
    if (made_.empty()) return;
    ::umount2((made_ / "here").c_str(), MNT_DETACH);
    std::error_code ignored;
    fs::remove_all(made_, ignored);
  }

  fs::path path;

 private:
  fs::path made_;
};

// A tensor that this rank alone has, and its row of one that all share.
StateToSave StateOf(const Ranks& ranks, const Numbers& own, const Numbers& row) {
  const std::int64_t rank = ranks.rank();
  return {.tensors = {{.path = {"model", "own." + std::to_string(rank)},
                       .shape = {static_cast<std::int64_t>(own.size())},
                       .memory = std::as_bytes(std::span(own))},
                      {.path = {"model", "rows"},
                       .shape = {ranks.size(), static_cast<std::int64_t>(row.size())},
                       .holds = {{{rank, rank + 1}}, {{0, static_cast<std::int64_t>(row.size())}}},
                       .memory = std::as_bytes(std::span(row))}},
          .values = {{.path = {"step"}, .value = 7}}};
}

std::vector<std::string> FilesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

Numbers Loaded(const fs::path& folder, const std::string& name, std::vector<std::int64_t> shape) {
  Numbers numbers(
      static_cast<std::size_t>(std::reduce(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies())));
  const std::vector<TensorToFill> wanted = {
      {.tensor = name, .shape = std::move(shape), .memory = std::as_writable_bytes(std::span(numbers))}};
  LoadInto({.path = folder}, wanted, {}, /*all_tensors=*/false);
  return numbers;
}

// Ranks 0 and 1 are on one machine, rank 2 is on the other one.
TEST(LibraryMpiTest, EachMachineKeepsAPart) {
  MpiRanks ranks;
  const std::string machine = ranks.rank() == 2 ? "b" : "a";
  const SharedFolder shared(ranks);
  const fs::path& folder = shared.path;
  const std::vector<std::string> mounted = ranks.AllGather(Mount(folder / machine, folder / "here") ? "mounted" : "");
  if (std::ranges::count(mounted, "mounted") < ranks.size()) GTEST_SKIP() << "disks of their own need root";
  ::setenv("UCP_MACHINE", machine.c_str(), 1);
  const Numbers own(1000, static_cast<float>(ranks.rank() + 1));
  const Numbers row(8, static_cast<float>(10 * ranks.rank()));
  const StateToSave state = StateOf(ranks, own, row);
  std::string sentence;
  EXPECT_EQ(KindOf([&] { Saver(state, "universal", {.ranks = &ranks, .node_local = true}); }, sentence),
            ErrorKind::kUsage);
  EXPECT_THAT(sentence, testing::HasSubstr("node_local is for the target `dcp`"));
  Saver saver(state, "dcp", {.ranks = &ranks, .keep = 1, .node_local = true});
  for (const char* name : {"1", "2"}) saver.Save(folder / "here" / name, state).durable.Wait();
  saver.Close();
  ranks.AllGather("");
  EXPECT_THAT(FilesIn(folder / machine), testing::ElementsAre("2"));
  EXPECT_THAT(FilesIn(folder / machine / "2"),
              testing::UnorderedElementsAre(".metadata", "ucp_manifest.json",
                                            testing::StartsWith(machine == "a" ? "__0_0_" : "__1_0_")));
  ranks.AllGather("");
  if (ranks.rank() != 0) return;
  for (const char* part : {"a", "b"}) {
    fs::copy(folder / part / "2", folder / "whole", fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  EXPECT_THAT(Verify({.path = folder / "whole"}).differences, testing::IsEmpty());
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Numbers expected(1000, static_cast<float>(rank + 1));
    EXPECT_EQ(Loaded(folder / "whole", "own." + std::to_string(rank), {1000}), expected);
  }
  Numbers rows;
  for (int rank = 0; rank < ranks.size(); ++rank) rows.insert(rows.end(), 8, static_cast<float>(10 * rank));
  EXPECT_EQ(Loaded(folder / "whole", "rows", {ranks.size(), 8}), rows);
}

}  // namespace
}  // namespace ucp
