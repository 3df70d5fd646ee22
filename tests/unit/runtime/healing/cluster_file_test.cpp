#include "runtime/healing/cluster_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace ucp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string File(const std::string& tasks, const std::string& more = "") {
  return fmt::format(R"({{"nodes": 8, "node_mtbf_hours": 2000, "network": "100GB/s", "tasks": [{}]{}}})", tasks, more);
}

std::string TaskText(const std::string& name, const std::string& more = "") {
  return fmt::format(R"({{"name": "{}", "speeds": {{"1": 1e15, "3": 2.5e15}}, "restart_seconds": 90{}}})", name, more);
}

std::string RefusalOf(const std::string& text) {
  llvm::Expected<Cluster> cluster = ParseCluster(text);
  if (cluster) return "none";
  return llvm::toString(cluster.takeError());
}

TEST(ClusterFileTest, EveryKey) {
  const Cluster cluster = llvm::cantFail(ParseCluster(
      File(TaskText("a", R"(, "weight": 0.5, "min_nodes": 2, "nodes": 3, "may_pause": true, "state_bytes": 1.2e12)") +
               "," + TaskText("b"),
           R"(, "starts": [)" + TaskText("c") + "]")));
  EXPECT_EQ(cluster.nodes, 8);
  EXPECT_EQ(cluster.node_mtbf, 7.2e6);
  EXPECT_EQ(cluster.network, 100e9);
  const Task& task = cluster.tasks.at(0);
  EXPECT_EQ(task.name, "a");
  EXPECT_EQ(task.weight, 0.5);
  EXPECT_EQ(task.least_nodes, 2);
  EXPECT_EQ(task.nodes, 3);
  EXPECT_TRUE(task.may_pause);
  EXPECT_EQ(task.state_bytes, 1.2e12);
  EXPECT_EQ(task.restart_seconds, 90);
  EXPECT_THAT(task.speeds, ElementsAre(0, 1e15, 0, 2.5e15));
  EXPECT_EQ(cluster.tasks.at(1).weight, 1);
  EXPECT_EQ(cluster.starts.at(0).name, "c");
}

TEST(ClusterFileTest, Refusals) {
  const auto task_with = [](const std::string& more) { return RefusalOf(File(TaskText("a", more))); };
  EXPECT_THAT(task_with(R"(, "weight": 0)"),
              HasSubstr("`tasks`: task 1: `a`: `weight`: it is 0, and must be a number from 0.001 to 1000"));
  EXPECT_THAT(task_with(R"(, "weight": nan)"), HasSubstr("it is nan"));
  EXPECT_THAT(task_with(R"(, "min_nodes": 0)"), HasSubstr("it is 0, and must be a whole number from 1"));
  EXPECT_THAT(task_with(R"(, "nodes": 2.5)"), HasSubstr("it is 2.5, and must be a whole number"));
  EXPECT_THAT(task_with(R"(, "may_pause": 1)"), HasSubstr("must be true or false"));
  EXPECT_THAT(task_with(R"(, "min_node": 1)"), HasSubstr("`min_node` is not a known key; is `min_nodes` meant?"));
  EXPECT_THAT(task_with(R"(, "weight": 1, "weight": 2)"), HasSubstr("weight"));
  EXPECT_THAT(task_with(R"(, "min_nodes": 9)"), HasSubstr("`a` needs 9 nodes, and the cluster has 8"));
  EXPECT_THAT(task_with(R"(, "min_nodes": 4)"), HasSubstr("none"));
  EXPECT_THAT(task_with(R"(, "nodes": 9)"), HasSubstr("the tasks have 9 nodes, and the cluster 8"));
  EXPECT_THAT(task_with(R"(, "state_bytes": 1e18)"), HasSubstr("one of 8 nodes fails every 9e+05 s"));
  EXPECT_THAT(RefusalOf(File(R"({"name": "a", "restart_seconds": 1, "speeds": {}})")), HasSubstr("no speed above 0"));
  EXPECT_THAT(RefusalOf(File(R"({"name": "a", "restart_seconds": 1, "speeds": {"0": 1}})")),
              HasSubstr("`speeds`: `0` is not a number of nodes from 1 to 10000"));
  EXPECT_THAT(RefusalOf(File(R"({"name": "a", "restart_seconds": 1, "speeds": {"9": 1}})")),
              HasSubstr("`a` has no speed on 1 to 8 nodes"));
  EXPECT_THAT(RefusalOf(File(R"({"name": "a", "restart_seconds": 1, "speeds": {"8": 1, "08": 2}})")),
              HasSubstr("`speeds`: `08` is not a number of nodes from 1 to 10000"));
  EXPECT_THAT(RefusalOf(File(R"({"name": "a"})")), HasSubstr("it has no `speeds`"));
  EXPECT_THAT(RefusalOf(File(TaskText("a") + "," + TaskText("a"))), HasSubstr("two tasks are named `a`"));
  EXPECT_THAT(RefusalOf(File(TaskText("a", R"(, "min_nodes": 5)") + "," + TaskText("b", R"(, "min_nodes": 4)"))),
              HasSubstr("the tasks must have 9 nodes (`min_nodes`), and the cluster has 8"));
  EXPECT_THAT(RefusalOf(R"({"nodes": 0})"), HasSubstr("`nodes`: it is 0"));
  EXPECT_THAT(RefusalOf(File("") + "x"), HasSubstr("the end"));
  EXPECT_THAT(RefusalOf(R"({"network": "fast"})"), HasSubstr("not `fast`"));
  EXPECT_THAT(RefusalOf("{}"), HasSubstr("it has no `nodes`"));
  EXPECT_THAT(RefusalOf(""), HasSubstr("it ends where an object should stand"));
}

TEST(ClusterFileTest, TheFileIsNamed) {
  const std::string path = testing::TempDir() + "ucp_cluster.json";
  std::ofstream(path) << R"({"nodes": -1})";
  EXPECT_THAT(llvm::toString(ReadClusterFile(RealFiles(), path).takeError()), HasSubstr(path + "`: `nodes`: it is -1"));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace ucp
