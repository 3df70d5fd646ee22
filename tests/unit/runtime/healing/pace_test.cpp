#include "runtime/healing/pace.h"

#include <gtest/gtest.h>

#include <random>

namespace ucp {
namespace {

// A task whose iterations take `mean` seconds, with a jitter of 10 %. Before anything is heard of it, its pace is
// looked at: a false alarm would come then.
class TrainingTask {
 public:
  explicit TrainingTask(double mean) : mean_(mean) {}

  void Trains(int iterations) {
    for (int i = 0; i < iterations; ++i) Iterates(Jittered(mean_));
  }
  void Iterates(double seconds) {
    Passes(seconds);
    pace_.OnIteration(now_);
  }
  void IsIn(const std::string& phase, double seconds, std::optional<double> most = std::nullopt) {
    pace_.OnPhase(phase, now_, most);
    Passes(seconds);
    pace_.OnPhaseEnds(now_);
  }
  double Jittered(double mean) { return mean * std::max(jitter_(random_), 0.1); }
  void SetMean(double mean) { mean_ = mean; }
  TaskPace& pace() { return pace_; }
  double now() const { return now_; }
  int hangs() const { return hangs_; }
  int slow() const { return slow_; }

 private:
  void Passes(double seconds) {
    now_ += seconds;
    const Pace pace = pace_.At(now_);
    if (pace == Pace::kHang) ++hangs_;
    if (pace == Pace::kSlow) ++slow_;
  }

  std::mt19937 random_{33};
  std::normal_distribution<double> jitter_{1, 0.1};
  double mean_;
  double now_ = 1000;
  TaskPace pace_{now_};
  int hangs_ = 0;
  int slow_ = 0;
};

TEST(PaceTest, AHundredThousandIterationsWithoutAFalseAlarm) {
  constexpr double kMean = 40;
  TrainingTask task(kMean);
  task.Iterates(25 * kMean);  // Compiles.
  int checked = 0;
  for (int i = 1; i < 100000; ++i) {
    if (i % 500 == 0) task.IsIn("evaluation", task.Jittered(10 * kMean));
    if (i % 100 == 0) task.IsIn("save", task.Jittered(4 * kMean), 10 * kMean);
    if (i % 20000 == 0) task.IsIn("compile", task.Jittered(20 * kMean));
    task.Trains(1);
    if (i % 1000 != 0) continue;
    // A real hang is found in 3 iterations, whenever it comes.
    EXPECT_NEAR(task.pace().HangsAt() - task.now(), 3 * kMean, 0.1 * 3 * kMean) << i;
    ++checked;
  }
  EXPECT_EQ(checked, 99);
  EXPECT_EQ(task.hangs(), 0);
  EXPECT_EQ(task.slow(), 0);
}

TEST(PaceTest, SilenceIsAHangAfterThreeIterations) {
  TrainingTask task(40);
  for (int i = 0; i < 50; ++i) task.Iterates(40);
  EXPECT_EQ(task.pace().At(task.now() + 119.9), Pace::kNormal);
  EXPECT_EQ(task.pace().At(task.now() + 120.1), Pace::kHang);
  EXPECT_DOUBLE_EQ(task.pace().Mean(), 40);
}

TEST(PaceTest, ShortIterationsHaveTenSeconds) {
  TrainingTask task(0.2);
  task.Trains(50);
  EXPECT_EQ(task.pace().At(task.now() + 9.9), Pace::kNormal);
  EXPECT_EQ(task.pace().At(task.now() + 10.1), Pace::kHang);
}

// Lengths that differ by themselves: 20, 100 and 180 s in turn. Their mean is 100 s, the median deviation 80 s.
TEST(PaceTest, IterationsThatDifferHaveMoreTime) {
  TrainingTask task(0);
  task.Iterates(1);
  for (int i = 0; i < 99; ++i) task.Iterates(20 + 80 * (i % 3));
  EXPECT_DOUBLE_EQ(task.pace().HangsAt() - task.now(), 100 + 6 * 80);
  EXPECT_EQ(task.hangs(), 0);
}

TEST(PaceTest, NothingIsKnownBeforeTenIterations) {
  TrainingTask task(1);
  task.Iterates(1790);
  for (int i = 0; i < 9; ++i) task.Iterates(1);
  EXPECT_EQ(task.pace().At(task.now() + 1799), Pace::kUnknown);
  EXPECT_EQ(task.pace().At(task.now() + 1801), Pace::kHang);
  task.Iterates(1);
  EXPECT_EQ(task.pace().At(task.now()), Pace::kNormal);
}

TEST(PaceTest, TheFirstIterationCountsForNothing) {
  TrainingTask task(40);
  task.Iterates(1000);
  for (int i = 0; i < 10; ++i) task.Iterates(40);
  EXPECT_DOUBLE_EQ(task.pace().Mean(), 40);
}

TEST(PaceTest, TheLast130IterationsCount) {
  TrainingTask task(40);
  for (int i = 0; i < 30; ++i) task.Iterates(40);
  task.Iterates(100);
  EXPECT_DOUBLE_EQ(task.pace().Mean(), 42);
  for (int i = 0; i < 129; ++i) task.Iterates(40);
  EXPECT_GT(task.pace().Mean(), 40.1);
  task.Iterates(40);
  EXPECT_DOUBLE_EQ(task.pace().Mean(), 40);
}

TEST(PaceTest, SlowIterationsAreToldAndGoOn) {
  TrainingTask task(40);
  task.Trains(200);
  task.SetMean(42);
  task.Trains(200);
  EXPECT_EQ(task.slow(), 0);  // 5 % more.
  task.SetMean(42 * 1.3);
  task.Trains(30);
  EXPECT_GT(task.slow(), 0);
  EXPECT_EQ(task.pace().At(task.now()), Pace::kSlow);
  task.Trains(1000);  // However long it lasts.
  EXPECT_EQ(task.pace().At(task.now()), Pace::kSlow);
  EXPECT_NEAR(task.pace().HangsAt() - task.now(), 3 * 42 * 1.3, 12);
  task.SetMean(42);
  task.Trains(40);
  EXPECT_EQ(task.pace().At(task.now()), Pace::kNormal);
  EXPECT_EQ(task.hangs(), 0);
}

TEST(PaceTest, ADeclaredPhaseLastsAsLongAsItSays) {
  TrainingTask task(1);
  task.Trains(50);
  task.pace().OnPhase("evaluation", task.now(), 600);
  EXPECT_EQ(task.pace().At(task.now() + 599), Pace::kNormal);
  EXPECT_EQ(task.pace().At(task.now() + 601), Pace::kHang);
}

TEST(PaceTest, APhaseIsLearned) {
  TrainingTask task(1);
  task.Trains(50);
  for (const double seconds : {300.0, 100.0}) {
    TaskPace before = task.pace();
    before.OnPhase("evaluation", task.now());
    EXPECT_DOUBLE_EQ(before.HangsAt(), task.now() + 1800);
    task.IsIn("evaluation", seconds);
    task.Trains(10);
    EXPECT_NEAR(task.pace().Mean(), 1, 0.1);  // Phases belong to no iteration.
  }
  task.pace().OnPhase("evaluation", task.now());
  EXPECT_DOUBLE_EQ(task.pace().HangsAt(), task.now() + 900);
  task.pace().OnPhaseEnds(task.now());
  EXPECT_DOUBLE_EQ(task.pace().HangsAt(), task.now() + 10);
}

// An iteration that has used 8 of its 10 seconds has 2 left after a phase.
TEST(PaceTest, TimeBeforeAPhaseCounts) {
  TrainingTask task(1);
  task.Trains(50);
  const double began = task.now();
  task.pace().OnPhase("save", began + 8, 60);
  task.pace().OnPhaseEnds(began + 38);
  EXPECT_DOUBLE_EQ(task.pace().HangsAt(), began + 30 + 10);
}

TEST(PaceTest, AClockThatGoesBackStandsStill) {
  TrainingTask task(1);
  for (int i = 0; i < 50; ++i) task.Iterates(1);
  task.pace().OnIteration(task.now() - 500);
  EXPECT_EQ(task.pace().At(task.now()), Pace::kNormal);
  EXPECT_DOUBLE_EQ(task.pace().HangsAt(), task.now() + 10);
}

}  // namespace
}  // namespace ucp
