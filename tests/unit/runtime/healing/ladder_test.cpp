#include "runtime/healing/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/healing/failures.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

constexpr double kMinutes = 60;

// Failures of a task that trains well in between.
class Job {
 public:
  Decision Fails(double minute, int severity, std::optional<std::int64_t> node = 1,
                 std::optional<std::int64_t> step = std::nullopt) {
    return ladder_.OnFailure({.at = minute * kMinutes, .node = node, .severity = severity, .step = step});
  }
  Decision AnswerFails(double minute) { return ladder_.OnAnswerFailed(minute * kMinutes); }
  void Trains(double minute, std::int64_t iterations = 100) { ladder_.OnIterations(minute * kMinutes, iterations); }
  Answer After(double minute, int severity, std::optional<std::int64_t> node = 1) {
    const Answer answer = Fails(minute, severity, node).answer;
    Trains(minute + 6);
    return answer;
  }

 private:
  Ladder ladder_;
};

TEST(LadderTest, EachSeverityHasItsAnswer) {
  EXPECT_EQ(Job().After(0, 3), Answer::kReattempt);
  EXPECT_EQ(Job().After(0, 2), Answer::kRestart);
  const Decision lost = Job().Fails(0, 1, 7);
  EXPECT_EQ(lost.answer, Answer::kIsolate);
  EXPECT_EQ(lost.node, 7);
}

TEST(LadderTest, AnswersThatFailGoUp) {
  Job job;
  EXPECT_EQ(job.Fails(0, 3).answer, Answer::kReattempt);
  EXPECT_EQ(job.AnswerFails(0.5).answer, Answer::kRestart);
  EXPECT_EQ(job.AnswerFails(1).answer, Answer::kIsolate);
  const Decision rest = job.AnswerFails(2);
  EXPECT_EQ(rest.answer, Answer::kRestart);  // Of the other nodes.
  EXPECT_EQ(job.AnswerFails(3).answer, Answer::kPark);
}

TEST(LadderTest, ThreeReattemptsInTenMinutesAreARestart) {
  Job job;
  EXPECT_EQ(job.After(0, 3), Answer::kReattempt);
  EXPECT_EQ(job.After(4, 3), Answer::kReattempt);
  EXPECT_EQ(job.After(9, 3), Answer::kRestart);
  Job slower;
  for (int minute = 0; minute < 60; minute += 6) EXPECT_EQ(slower.After(minute, 3), Answer::kReattempt) << minute;
  Job nodes;
  for (int node = 0; node < 9; ++node) EXPECT_EQ(nodes.After(node, 3, node), Answer::kReattempt);
}

TEST(LadderTest, ANodeThatFailsTwiceInAnHourIsIsolated) {
  Job job;
  EXPECT_EQ(job.After(0, 2, 4), Answer::kRestart);
  EXPECT_EQ(job.After(20, 2, 5), Answer::kRestart);
  EXPECT_EQ(job.After(59, 2, 4), Answer::kIsolate);
  Job seldom;
  EXPECT_EQ(seldom.After(0, 2, 4), Answer::kRestart);
  EXPECT_EQ(seldom.After(61, 2, 4), Answer::kRestart);
}

// H7: up within an incident, from the bottom after 30 quiet minutes.
TEST(LadderTest, H7OnlyUpWithinAnIncident) {
  Job job;
  EXPECT_EQ(job.After(0, 2), Answer::kRestart);
  EXPECT_EQ(job.After(31, 3), Answer::kReattempt);
  Job soon;
  EXPECT_EQ(soon.After(0, 2), Answer::kRestart);
  EXPECT_EQ(soon.After(29, 3), Answer::kIsolate);  // As severity 2, the second in an hour.
}

TEST(LadderTest, ATaskThatEndsSoonTwice) {
  Job job;
  EXPECT_EQ(job.Fails(0, 2, 1).answer, Answer::kRestart);
  job.Trains(1, 5);
  EXPECT_EQ(job.Fails(2, 2, 2).answer, Answer::kRestart);
  job.Trains(3, 5);
  EXPECT_EQ(job.Fails(4, 2, 3).answer, Answer::kIsolate);
  Job nobody;
  EXPECT_EQ(nobody.Fails(0, 2, std::nullopt).answer, Answer::kRestart);
  nobody.Trains(1, 5);
  EXPECT_EQ(nobody.Fails(2, 2, std::nullopt).answer, Answer::kRestart);
  nobody.Trains(3, 5);
  const Decision parked = nobody.Fails(4, 2, std::nullopt);
  EXPECT_EQ(parked.answer, Answer::kPark);
  EXPECT_THAT(parked.reason, HasSubstr("no node is known"));
}

TEST(LadderTest, AStepThatFailsOnDifferentNodesParks) {
  Job job;
  EXPECT_EQ(job.Fails(0, 2, 1, 4711).answer, Answer::kRestart);
  job.Trains(10);
  const Decision parked = job.Fails(12, 2, 2, 4711);
  EXPECT_EQ(parked.answer, Answer::kPark);
  EXPECT_THAT(parked.reason, HasSubstr("step 4711 fails on different nodes"));
  Job node;  // The same node twice is its own fault.
  EXPECT_EQ(node.Fails(0, 2, 1, 4711).answer, Answer::kRestart);
  node.Trains(10);
  EXPECT_EQ(node.Fails(12, 2, 1, 4711).answer, Answer::kIsolate);
  Job steps;
  EXPECT_EQ(steps.Fails(0, 2, 1, 4711).answer, Answer::kRestart);
  steps.Trains(10);
  EXPECT_EQ(steps.Fails(12, 2, 2, 4712).answer, Answer::kRestart);
}

// One rank dies, and all others raise because of it.
TEST(LadderTest, ConsequencesAreNoIncidents) {
  Job job;
  EXPECT_EQ(job.Fails(0, 2, 1, 9).answer, Answer::kRestart);
  for (int node = 2; node < 9; ++node) EXPECT_EQ(job.Fails(0.01, 3, node, 9).answer, Answer::kNothing);
  EXPECT_EQ(job.Fails(0.1, 1, 5).answer, Answer::kIsolate);
}

TEST(LadderTest, SixRestartsInAnHour) {
  Job job;
  for (int node = 0; node < 6; ++node) EXPECT_EQ(job.After(node * 7, 2, node), Answer::kRestart);
  EXPECT_EQ(job.After(50, 2, 8), Answer::kPark);
  Job later;
  for (int node = 0; node < 6; ++node) EXPECT_EQ(later.After(node * 7, 2, node), Answer::kRestart);
  EXPECT_EQ(later.After(61, 2, 8), Answer::kRestart);
}

// Whatever happens: never more than six restarts in any hour, and no answer below that of the severity.
TEST(LadderTest, NeverMoreRestartsThanAllowed) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    Ladder ladder;
    std::deque<double> restarts;
    double at = 0;
    for (int failure = 0; failure < 200; ++failure) {
      at += static_cast<double>(random() % 1500);
      const int severity = 1 + static_cast<int>(random() % 3);
      ladder.OnIterations(at, static_cast<std::int64_t>(random() % 30));
      const Decision decision = ladder.OnFailure(
          {.at = at, .node = static_cast<std::int64_t>(random() % 8), .severity = severity, .step = std::nullopt});
      EXPECT_TRUE(severity != 2 || decision.answer != Answer::kReattempt);
      EXPECT_TRUE(severity != 1 || decision.answer == Answer::kIsolate || decision.answer == Answer::kPark);
      if (decision.answer == Answer::kRestart || decision.answer == Answer::kIsolate) restarts.push_back(at);
      while (!restarts.empty() && restarts.front() < at - 3600) restarts.pop_front();
      EXPECT_LE(restarts.size(), 6U);
    }
  }
}

TEST(FailuresTest, RowsOfTheTable) {
  EXPECT_EQ(FindFailureKind("lost connection")->severity, 1);
  EXPECT_EQ(FindFailureKind("process exited")->severity, 2);
  EXPECT_EQ(FindFailureKind("hang")->severity, 2);
  EXPECT_EQ(FindFailureKind("collective timeout")->severity, 3);
  EXPECT_EQ(FindFailureKind("link flapping")->severity, 3);
  EXPECT_EQ(FindFailureKind("flood"), nullptr);
  EXPECT_EQ(FailureKinds().back().words, "");
}

// Messages as PyTorch, NCCL and gloo write them.
TEST(FailuresTest, Exceptions) {
  const auto kind = [](std::string_view type, std::string_view text) {
    const FailureKind& found = KindOfException(type, text);
    return std::pair(found.name, found.severity);
  };
  EXPECT_EQ(kind("RuntimeError", "CUDA error: an illegal memory access was encountered"),
            std::pair(std::string_view("illegal memory access"), 2));
  EXPECT_EQ(kind("RuntimeError", "CUDA error: uncorrectable ECC error encountered"),
            std::pair(std::string_view("ECC error"), 1));
  EXPECT_EQ(kind("torch.AcceleratorError", "CUDA error: device-side assert triggered"),
            std::pair(std::string_view("CUDA error"), 2));
  EXPECT_EQ(kind("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB"),
            std::pair(std::string_view("CUDA error"), 2));
  EXPECT_EQ(kind("RuntimeError", "CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error"),
            std::pair(std::string_view("NVLink error"), 1));
  EXPECT_EQ(kind("RuntimeError", "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"),
            std::pair(std::string_view("other network error"), 3));
  EXPECT_EQ(kind("ConnectionRefusedError", "[Errno 111] Connection refused"),
            std::pair(std::string_view("connection refused or reset"), 3));
  EXPECT_EQ(kind("DistBackendError", "NCCL error in: ProcessGroupNCCL.cpp:1331, remote process exited"),
            std::pair(std::string_view("other network error"), 3));
  EXPECT_EQ(kind("ValueError", "loss is nan"), std::pair(std::string_view("other software error"), 2));
}

}  // namespace
}  // namespace ucp
