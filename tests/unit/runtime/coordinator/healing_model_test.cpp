// The invariants of coordination.h in all states of three agents and a coordinator, with a few faults on the way to
// each. H4, that a step is taken by all ranks or none, is the memory tier's (tests/python/test_memory_model.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/unit/runtime/coordinator/healing_model.h"

namespace ucp {
namespace {

using ::testing::AnyOf;
using ::testing::StartsWith;

constexpr std::size_t kMostStates = 100'000;  // Of about 4 KiB each.

struct Explored {
  std::size_t states = 0;
  std::string broken;  // The first invariant that does not hold; empty: all do.
};

Explored Explore(const ModelSettings& settings) {
  HealingModel model(settings);
  std::unordered_set<ModelState, ModelStateHash> seen = {model.First()};
  std::vector<const ModelState*> waiting = {&*seen.begin()};
  while (!waiting.empty() && model.broken().empty()) {
    if (seen.size() > kMostStates) return {seen.size(), "there are too many states"};
    const ModelState& state = *waiting.back();
    waiting.pop_back();
    model.CheckEnd(state);
    for (const ModelStep& step : model.StepsOf(state)) {
      for (ModelState& next : model.After(state, step)) {
        const auto [added, is_new] = seen.insert(std::move(next));
        if (is_new) waiting.push_back(&*added);
      }
    }
  }
  return {seen.size(), model.broken()};
}

// Some ways through the states, up to the first invariant that does not hold.
std::string Wander(const ModelSettings& settings) {
  constexpr int kMostWays = 20'000;
  constexpr int kMostTurns = 100;
  HealingModel model(settings);
  std::mt19937 random(1);
  for (int way = 0; way < kMostWays && model.broken().empty(); ++way) {
    ModelState state = model.First();
    for (int i = 0; i < kMostTurns && model.broken().empty(); ++i) {
      const std::vector<ModelStep> steps = model.StepsOf(state);
      if (steps.empty()) break;
      std::vector<ModelState> next = model.After(state, steps[random() % steps.size()]);
      state = std::move(next[random() % next.size()]);
    }
    model.CheckEnd(std::move(state));
  }
  return model.broken();
}

void ExpectAllHolds(const ModelSettings& settings, std::size_t least_states) {
  const Explored explored = Explore(settings);
  EXPECT_EQ(explored.broken, "");
  EXPECT_GT(explored.states, least_states);
}

TEST(HealingModelTest, H1H3AConnectionBreaks) { ExpectAllHolds({.cuts = 1, .pauses = 1}, 10'000); }

TEST(HealingModelTest, H1H3AnAgentEndsAndMayComeBack) {
  ExpectAllHolds({.kills = 1, .pauses = 1}, 1000);
  ExpectAllHolds({.kills = 1, .returns = 1}, 1000);
}

TEST(HealingModelTest, H2TwoTasksWantOneNode) {
  ExpectAllHolds({.cuts = 1, .pauses = 1, .shares_name = true, .least = 1}, 1000);
  ExpectAllHolds({.kills = 1, .pauses = 1, .shares_name = true, .least = 1}, 1000);
}

TEST(HealingModelTest, H5H6TheCoordinatorEndsBetweenAnyTwoWords) {
  ExpectAllHolds({.ends = 1, .pauses = 1}, 10'000);
  ExpectAllHolds({.finishes = true}, 100);
}

TEST(HealingModelTest, H5H6TheCoordinatorEndsTogetherWithAnAgent) { ExpectAllHolds({.kills = 1, .ends = 1}, 10'000); }

TEST(HealingModelTest, H1CoordinatorsWithoutAJournal) { ExpectAllHolds({.ends = 2, .has_journal = false}, 10'000); }

TEST(HealingModelTest, H7TwoProcessesFail) { ExpectAllHolds({.failures = 2, .trains = true}, 10'000); }

// Each breaks the rule that it is named after.
TEST(HealingModelTest, MutantsAreCaught) {
  const auto broken = [](ModelSettings settings, ModelMutant mutant) {
    settings.mutant = mutant;
    return Wander(settings);
  };
  EXPECT_THAT(broken({.cuts = 1, .pauses = 1}, ModelMutant::kOldProcessesStay), StartsWith("H1"));
  EXPECT_THAT(broken({.ends = 1, .pauses = 1}, ModelMutant::kEpochsAreForgotten), StartsWith("H1"));
  EXPECT_THAT(broken({.cuts = 1, .pauses = 1, .shares_name = true, .least = 1}, ModelMutant::kNamesAreNotCompared),
              AnyOf(StartsWith("H2"), StartsWith("H3")));  // It takes the processes of the other task for gone.
  EXPECT_THAT(broken({.cuts = 1, .pauses = 1}, ModelMutant::kCutOffIsGone), StartsWith("H3"));
  EXPECT_THAT(broken({.failures = 1}, ModelMutant::kFailedIsStopped), StartsWith("H3"));
  EXPECT_THAT(broken({.ends = 1}, ModelMutant::kSendsFirst), StartsWith("H5"));
  EXPECT_THAT(broken({.ends = 1}, ModelMutant::kResumedIsRestarted), StartsWith("H6"));
  EXPECT_THAT(broken({.failures = 2, .ends = 1, .trains = true}, ModelMutant::kFailuresAreForgotten), StartsWith("H7"));
}

}  // namespace
}  // namespace ucp
