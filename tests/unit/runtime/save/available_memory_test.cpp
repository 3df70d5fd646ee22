// Limits of memory in file systems that were made up: with control groups of both versions, and without any.
#include "runtime/save/available_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace ucp {
namespace {

namespace fs = std::filesystem;

class AvailableMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("ucp-memory-test-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    Write("proc/meminfo", "MemTotal:       16000 kB\nMemFree:         100 kB\nMemAvailable:    8000 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::uint64_t Available() const { return AvailableMemory(root_.string()); }

  fs::path root_;
};

TEST_F(AvailableMemoryTest, OfTheMachine) {
  EXPECT_EQ(Available(), 8000U * 1024);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(Available(), 8000U * 1024);
}

TEST_F(AvailableMemoryTest, OfVersion2AndTheGroupsAround) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/memory.max", "5000000\n");
  Write("sys/fs/cgroup/a/memory.current", "4000000\n");
  Write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 1500000\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("sys/fs/cgroup/a/b/memory.current", "10\n");
  EXPECT_EQ(Available(), 2500000U);
  Write("sys/fs/cgroup/a/memory.current", "9000000\n");
  EXPECT_EQ(Available(), 0U);
}

TEST_F(AvailableMemoryTest, OfVersion1) {
  Write("proc/self/cgroup", "5:devices:/\n4:memory:/job\n0::/\n");
  Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3000000\n");
  Write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(Available(), 2000000U);
}

TEST_F(AvailableMemoryTest, NothingIsKnown) {
  fs::remove_all(root_);
  EXPECT_EQ(Available(), std::numeric_limits<std::uint64_t>::max());
}

TEST(AvailableMemoryHereTest, IsSomeAndNotAllThereCouldBe) {
  EXPECT_GT(AvailableMemory(), 0U);
  EXPECT_LT(AvailableMemory(), std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace ucp
