#include "runtime/transitions/plan_transitions.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kOneTensor = R"(ucp 1
dim rows
mesh pp, dp, tp
layout one {
  "rows.weight" [rows]
}
)";

class PlanTransitionsTest : public testing::Test {
 protected:
  PlanTransitionsTest() {
    WriteTestFile(spec_, kOneTensor);
    task_.name = "a";
    task_.restart_seconds = 10;
    task_.layouts.spec = spec_;
    task_.layouts.set = {"rows=64"};
    task_.layouts.strategies = {
        {1, "deepspeed:dp=1,zero=3"}, {2, "deepspeed:dp=2,zero=3"}, {4, "deepspeed:dp=4,zero=3"}};
    task_.layouts.copies = 1;
  }

  std::string Refusal() { return llvm::toString(PlanTransitions(RealFiles(), task_)); }

  // Of 64 elements, each with 12 bytes.
  double Elements(std::int64_t from, std::int64_t to, bool is_hit) const {
    return (TransitionSeconds(task_, from, to, is_hit, 12) - 10);
  }

  const ScratchFolder folder_;
  const std::string spec_ = folder_.Path("one.ucp");
  Task task_;
};

TEST_F(PlanTransitionsTest, EveryChange) {
  llvm::cantFail(PlanTransitions(RealFiles(), task_));
  EXPECT_EQ(Elements(2, 2, false), 0);
  EXPECT_EQ(Elements(1, 2, false), 32);
  EXPECT_EQ(Elements(1, 4, false), 48);  // One sends to three.
  EXPECT_EQ(Elements(2, 4, false), 32);  // The first node keeps 16 of its 32 and sends 16, and the second one sends 32.
  EXPECT_EQ(Elements(4, 1, false), 48);
  EXPECT_EQ(Elements(3, 3, false), 0);  // As on two.
  EXPECT_EQ(Elements(0, 1, false), 64);
  EXPECT_EQ(Elements(0, 4, false), 16);
  EXPECT_EQ(Elements(4, 0, true), 0);
  EXPECT_EQ(Elements(2, 2, true), 32);  // The one that stays has its half; or it has the other half, and both get one.
  EXPECT_EQ(Elements(4, 2, true), 32);
  task_.layouts.copies = 2;
  llvm::cantFail(PlanTransitions(RealFiles(), task_));
  EXPECT_EQ(Elements(2, 2, true), 32);
  EXPECT_EQ(Elements(4, 4, true), 16);  // The new node receives the part of the last one.
}

// Below `least_nodes` it does not run, whatever strategy there is.
TEST_F(PlanTransitionsTest, BelowItsLeastNodes) {
  task_.least_nodes = 2;
  llvm::cantFail(PlanTransitions(RealFiles(), task_));
  EXPECT_EQ(Elements(1, 2, false), 32);  // From storage.
  EXPECT_EQ(Elements(1, 4, false), 16);
  EXPECT_EQ(Elements(4, 1, false), 0);
}

// 48 elements are the most, from one node to four or back, and 64 from storage to one.
TEST_F(PlanTransitionsTest, OfThoseThatCanHappen) {
  llvm::cantFail(PlanTransitions(RealFiles(), task_));
  const auto longest = [&](std::int64_t nodes) { return LongestTransition(task_, nodes, 12) - 10; };
  EXPECT_EQ(longest(4), 64);
  task_.least_nodes = 2;
  task_.moved.at({4, 4, true}) = 1200;
  EXPECT_EQ(longest(4), 100);
  EXPECT_EQ(longest(3), 32);
}

TEST_F(PlanTransitionsTest, WithoutLayouts) {
  task_.layouts = {};
  task_.state_bytes = 120;
  llvm::cantFail(PlanTransitions(RealFiles(), task_));
  EXPECT_EQ(Elements(2, 4, true), 5);
}

TEST_F(PlanTransitionsTest, Refusals) {
  task_.layouts.strategies = {{2, "deepspeed:dp=3,zero=1"}};
  EXPECT_THAT(Refusal(), HasSubstr("on 2 nodes: `deepspeed:dp=3,zero=1` has 3 ranks, which do not divide over 2"));
  task_.layouts.strategies = {{1, "universal"}};
  EXPECT_THAT(Refusal(), HasSubstr("`universal` does not say which rank holds what: give a strategy `deepspeed:…`"));
  task_.layouts.strategies = {{1, "deepspeed:dp=2,zero=1,elastic=true"}};
  EXPECT_THAT(Refusal(), HasSubstr("`deepspeed:dp=2,zero=1,elastic=true` does not say which rank holds what"));
  task_.layouts.strategies = {{1, "deepspeed:dp=2,zero=1"}};
  task_.layouts.set = {};
  EXPECT_THAT(Refusal(), HasSubstr("`ucpc plan` with this spec"));
  task_.layouts.spec = "lama";
  EXPECT_THAT(Refusal(), HasSubstr("lama"));
}

TEST_F(PlanTransitionsTest, TheFile) {
  const std::string path = folder_.Path("cluster.json");
  const auto write = [&](const std::string& more) {
    WriteTestFile(path, R"({"nodes": 4, "node_mtbf_hours": 2000, "network": "1GB/s", "tasks": [{"name": "a", )"
                        R"("restart_seconds": 1, "speeds": {"1": 1}, "spec": ")" +
                            spec_ + R"(")" + more + "}]}");
  };
  write(
      R"(, "set": ["rows=64"], "copies": 1, "strategies": {"1": "deepspeed:dp=1,zero=3", "4": "deepspeed:dp=4,zero=3"})");
  std::vector<std::string> said;
  const auto say = [&](const std::string& line) { said.push_back(line); };
  const Cluster cluster = llvm::cantFail(ReadPlannedCluster(RealFiles(), path, say));
  EXPECT_THAT(said, ElementsAre("makes 4 plans for changes of nodes before it listens"));
  EXPECT_EQ(cluster.tasks.at(0).moved.size(), 10U);
  EXPECT_EQ(cluster.tasks.at(0).moved.at({1, 4, false}), 48 * 12);
  const auto refusal = [&] { return llvm::toString(ReadPlannedCluster(RealFiles(), path).takeError()); };
  write(R"(, "strategies": {"1": "dcp"})");
  EXPECT_THAT(refusal(), HasSubstr(path + "`: `a`: `strategies`: from `dcp` on 1 node to `dcp` on 1 node: "));
  write("");
  EXPECT_THAT(refusal(), HasSubstr("`a`: it has `spec`, and not `strategies`: give both, or neither"));
  write(R"(, "state_bytes": 1, "strategies": {"1": "deepspeed:dp=1"})");
  EXPECT_THAT(refusal(), HasSubstr("it has `state_bytes` and `strategies`, which both say"));
  write(R"(, "strategies": {"0": "deepspeed:dp=1"})");
  EXPECT_THAT(refusal(), HasSubstr("`strategies`: `0` is not a number of nodes from 1 to 10000"));
  write(R"(, "strategies": {"01": "deepspeed:dp=1"})");
  EXPECT_THAT(refusal(), HasSubstr("`strategies`: `01` is not a number of nodes"));
  write(R"(, "strategies": {"257": "deepspeed:dp=1"})");
  EXPECT_THAT(refusal(), HasSubstr("there is a strategy on 257 nodes, and plans are made for up to 256"));
  write(R"(, "strategies": {"2": "deepspeed:dp=2"})");
  EXPECT_THAT(refusal(), HasSubstr("`min_nodes` is 1, and the first of `strategies` is on 2 nodes"));
  std::string many = R"("1": "deepspeed:dp=1")";
  for (int nodes = 2; nodes <= 17; ++nodes) many += fmt::format(R"(, "{}": "deepspeed:dp=1")", nodes);
  write(R"(, "strategies": {)" + many + "}");
  EXPECT_THAT(refusal(), HasSubstr("need 289 plans, one between any two of a task, and at most 256 are made"));
  write(R"(, "copies": 0, "strategies": {"1": "deepspeed:dp=1"})");
  EXPECT_THAT(refusal(), HasSubstr("`copies`: it is 0, and must be a whole number from 1"));
}

}  // namespace
}  // namespace ucp
