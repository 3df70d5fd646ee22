// The invariants of the model. Truth is what the agents have, and not what the coordinator believes.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tests/unit/runtime/coordinator/healing_model.h"

namespace ucp {
namespace {

constexpr int kSilence = 5;
constexpr int kForReturn = 10;
constexpr int kMostSteps = 1000;
constexpr int kPausesAtTheEnd = 5;

}  // namespace

void HealingModel::Break(const std::string& rule) {
  if (broken_.empty()) broken_ = rule;
}

// H1: whoever works in an epoch has a place of his own in the same world.
void HealingModel::CheckWorlds(const ModelState& state) {
  for (std::size_t i = 0; i < kModelAgents; ++i) {
    const ModelAgent& left = state.agents[i];
    for (std::size_t j = i + 1; left.HasProcesses() && j < kModelAgents; ++j) {
      const ModelAgent& right = state.agents[j];
      const bool is_same = right.HasProcesses() && TaskOf(i) == TaskOf(j) && left.epoch == right.epoch;
      if (is_same && (left.rank == right.rank || left.nodes != right.nodes)) {
        Break(fmt::format("H1: nodes {} and {} have different worlds of epoch {}", i + 1, j + 1, left.epoch));
      }
    }
  }
}

// H1, H2, H3.
void HealingModel::CheckEpoch(const ModelState& state, const CoordinatorEntry& entry) {
  if (entry.event != "epoch") return;
  for (const CoordinatorEntry& before : *state.journal) {
    const bool is_again = before.event == "epoch" && before.task == entry.task && before.epoch >= entry.epoch;
    if (is_again && settings_.has_journal) Break(fmt::format("H1: epoch {} begins twice", entry.epoch));
  }
  for (std::size_t i = 0; i < kModelAgents; ++i) {
    const bool is_heard = state.now - state.agents[i].heard <= kSilence;
    if (!state.agents[i].HasProcesses() || !is_heard) continue;
    const bool is_wanted = std::ranges::find(entry.nodes, NameOf(i)) != entry.nodes.end();
    if (TaskOf(i) == entry.task) {
      Break(fmt::format("H3: epoch {} begins, and node {} has processes of epoch {}", entry.epoch, i + 1,
                        state.agents[i].epoch));
    } else if (is_wanted) {
      Break(fmt::format("H2: node {} works for both tasks", NameOf(i)));
    }
  }
}

// H7: the second failure of a node is answered by more than a restart, also by another coordinator.
void HealingModel::CheckAnswer(const ModelState& state, const CoordinatorEntry& entry) {
  const auto is_restart = [](const CoordinatorEntry& one) {
    return one.event == "failure" && one.answer == "restart" && !one.is_of_answer && !one.node.empty();
  };
  if (!is_restart(entry)) return;
  for (auto before = state.journal->rbegin(); before != state.journal->rend(); ++before) {
    if (before->event == "ended" || before->answer == "isolate" || before->answer == "park") return;
    if (is_restart(*before) && before->node == entry.node) {
      return Break(fmt::format("H7: node {} fails again, and its processes only start again", entry.node));
    }
  }
}

// H6: nobody but the coordinator has ended, and it came back soon.
bool HealingModel::IsUndisturbed(const ModelState& state) const {
  if (state.failures + state.kills + state.cuts > 0 || settings_.shares_name) return false;
  const auto works = [&](const ModelAgent& agent) {
    return agent.HasProcesses() && agent.epoch == state.agents[0].epoch && state.now - agent.heard < kForReturn;
  };
  return std::ranges::all_of(state.agents, works) && state.agents[0].nodes == std::ssize(state.agents);
}

// H5, H6.
void HealingModel::CheckOrder(const ModelState& state, const CoordinatorEffects::Message& message) {
  const auto wire = std::ranges::find(state.wires, message.to, &ModelWire::number);
  if (wire == state.wires.end()) return;
  const CoordinatorMessage& order = message.message;
  if (order.kind == CoordinatorMessage::Kind::kRestart && IsUndisturbed(state)) {
    return Break("H6: processes that nothing has happened to start again: " + order.reason);
  }
  if (order.kind != CoordinatorMessage::Kind::kWorld) return;
  const auto says_so = [&](const CoordinatorEntry& entry) {
    return entry.event == "epoch" && entry.task == TaskOf(wire->agent) && entry.epoch == order.epoch &&
           std::ssize(entry.nodes) == order.nodes &&
           entry.nodes[static_cast<std::size_t>(order.rank)] == NameOf(wire->agent);
  };
  if (std::ranges::none_of(*state.journal, says_so)) {
    Break(fmt::format("H5: node {} hears of epoch {}, which is not written", NameOf(wire->agent), order.epoch));
  }
}

void HealingModel::CheckEnd(ModelState state) {
  if (settings_.finishes || settings_.shares_name) return;  // Nodes stay away that could work.
  ModelSettings calm = settings_;
  calm.failures = state.failures;
  calm.kills = state.kills;
  calm.returns = state.returns;
  calm.cuts = state.cuts;
  calm.ends = state.ends;
  calm.pauses = 0;
  calm.finishes = false;
  calm.trains = true;
  HealingModel model(calm);
  // A state that a step leads on from has its end checked where that step has led.
  const std::vector<ModelStep> next = model.StepsOf(state);
  if (!next.empty() && next.front().kind != ModelStep::Kind::kTrain) return;
  int pauses = 0;
  for (int i = 0; i < kMostSteps && pauses < kPausesAtTheEnd && model.broken_.empty(); ++i) {
    const std::vector<ModelStep> steps = model.StepsOf(state);
    pauses = steps.empty() ? pauses + 1 : 0;
    state = model.After(state, steps.empty() ? ModelStep{ModelStep::Kind::kPause} : steps.front()).front();
  }
  if (pauses < kPausesAtTheEnd) return Break("H1: it comes to no end: " + model.broken_);
  if (const std::string problem = model.ProblemAtTheEnd(state); !problem.empty()) Break(problem);
}

std::string HealingModel::ProblemAtTheEnd(const ModelState& state) const {
  std::int64_t newest = 0;
  std::vector<std::string> members;
  for (const CoordinatorEntry& entry : *state.journal) {
    if (entry.answer == "park" || entry.event == "ended") return "";
    if (entry.event != "epoch" || entry.epoch < newest) continue;
    newest = entry.epoch;
    members = entry.nodes;
  }
  std::set<std::string> left_out;
  const llvm::json::Object status = state.coordination->Status(state.now);
  for (const llvm::json::Value& node : *status.getArray("nodes")) {
    const llvm::json::Object& object = *node.getAsObject();
    if (!object.getString("left_out")->empty()) left_out.insert(object.getString("node")->str());
  }
  std::int64_t usable = 0;
  std::int64_t working = 0;
  for (std::size_t i = 0; i < kModelAgents; ++i) {
    const ModelAgent& agent = state.agents[i];
    if (agent.HasProcesses() && agent.epoch != newest) {
      return fmt::format("H1: node {} stays in epoch {} of {}", i + 1, agent.epoch, newest);
    }
    if (agent.HasProcesses()) ++working;
    if (agent.is_alive && !left_out.contains(NameOf(i))) ++usable;
  }
  if (usable < settings_.least) return working == 0 ? "" : "H3: too few nodes work";
  if (working == std::ssize(members) && working > 0) return "";
  return fmt::format("H1: {} nodes can work, {} do, and epoch {} has {}", usable, working, newest, members.size());
}

}  // namespace ucp
