// The coordinator of the model: the real policy between a journal and connections, as coordinator.cpp has it.
#include "tests/unit/runtime/coordinator/healing_model.h"

#include <fmt/format.h>
#include <llvm/ADT/Hashing.h>

#include <algorithm>

namespace ucp {
namespace {

using Kind = AgentMessage::Kind;
constexpr int kPauseSeconds = 6;
constexpr int kNever = -1000;

template <typename T>
bool AreEqual(const std::shared_ptr<T>& left, const std::shared_ptr<T>& right) {
  return left == right || (left && right && *left == *right);
}

}  // namespace

bool ModelState::operator==(const ModelState& other) const {
  const auto counts = [](const ModelState& of) {
    return std::tuple(of.trained, of.now, of.failures, of.kills, of.returns, of.cuts, of.ends, of.pauses);
  };
  return counts(*this) == counts(other) && agents == other.agents && wires == other.wires &&
         AreEqual(coordination, other.coordination) && AreEqual(journal, other.journal);
}

std::size_t ModelState::Hash() const {
  llvm::hash_code hash = llvm::hash_combine(now, failures, kills, returns, cuts, ends, pauses, trained, journal->size(),
                                            coordination == nullptr);
  for (const ModelAgent& agent : agents) {
    const std::int64_t offer = agent.offer ? agent.offer->epoch : 0;
    const int order = agent.order ? 1 + static_cast<int>(agent.order->kind) : 0;
    hash = llvm::hash_combine(hash, agent.is_alive, agent.joins, agent.has_ended, agent.has_failed, agent.epoch,
                              agent.rank, agent.heard, offer, order, agent.start);
  }
  for (const ModelWire& wire : wires) {
    hash = llvm::hash_combine(hash, wire.number, wire.agent, wire.agent_open, wire.coordinator_open, wire.broken);
    for (const ModelLine& line : wire.lines) hash = llvm::hash_combine(hash, static_cast<int>(line.kind), line.epoch);
    for (const ModelOrder& order : wire.orders) {
      hash = llvm::hash_combine(hash, static_cast<int>(order.kind), order.epoch);
    }
  }
  return hash;
}

std::string HealingModel::NameOf(std::size_t agent) const {
  return std::to_string(settings_.shares_name && agent == kModelAgents - 1 ? 1 : agent + 1);
}

std::string HealingModel::TaskOf(std::size_t agent) const {
  return settings_.shares_name && agent == kModelAgents - 1 ? "u" : "t";
}

ModelState HealingModel::First() const {
  ModelState state;
  Coordination coordination(0);
  coordination.Begin(0);
  state.coordination = std::make_shared<const Coordination>(std::move(coordination));
  for (std::size_t i = 0; i < kModelAgents; ++i) Connect(state, i);
  return state;
}

std::vector<ModelState> HealingModel::After(const ModelState& state, const ModelStep& step) {
  std::vector<ModelState> states = {state};
  left_.reset();
  spent_ = 0;
  Apply(states.front(), step);
  if (state.ends == settings_.ends || !state.coordination) return states;
  const int most = spent_;
  for (int left = 0; left < std::max(1, most); ++left) {
    ModelState& ended = states.emplace_back(state);
    left_ = left;
    spent_ = 0;
    if (Apply(ended, step)) left_ = 0;  // Nothing was written or sent; it ends after the step.
    ended.coordination.reset();
    ++ended.ends;
    for (ModelWire& wire : ended.wires) {
      wire.coordinator_open = false;
      wire.lines.clear();
    }
    std::erase_if(ended.wires, [](const ModelWire& wire) { return !wire.agent_open; });
  }
  left_.reset();
  return states;
}

bool HealingModel::Apply(ModelState& state, const ModelStep& step) {
  bool lasts = true;
  switch (step.kind) {
    case ModelStep::Kind::kCut:
      ++state.cuts;
      state.wires[step.place].broken = true;
      state.wires[step.place].lines.clear();
      state.wires[step.place].orders.clear();
      break;
    case ModelStep::Kind::kDeliver:
      lasts = Deliver(state, state.wires[step.place]);
      break;
    case ModelStep::Kind::kClosed:
      lasts = Closed(state, state.wires[step.place]);
      break;
    case ModelStep::Kind::kPause:
      ++state.pauses;
      lasts = Pause(state);
      break;
    case ModelStep::Kind::kTrain:
      lasts = Train(state);
      break;
    case ModelStep::Kind::kBegin:
      Begin(state);
      break;
    default:
      OfAgent(state, step);
  }
  std::erase_if(state.wires, [](const ModelWire& wire) { return !wire.agent_open && !wire.coordinator_open; });
  CheckWorlds(state);
  return lasts;
}

AgentMessage HealingModel::MessageOf(const ModelState& state, std::size_t agent, const ModelLine& line) const {
  AgentMessage message{.kind = line.kind, .epoch = line.epoch};
  message.task = TaskOf(agent);
  message.node = NameOf(agent);
  message.host = "h";
  message.port = 1 + static_cast<std::int64_t>(agent) + 10 * state.agents[agent].start;
  message.least = TaskOf(agent) == "t" ? settings_.least : 1;
  message.most = TaskOf(agent) == "t" ? static_cast<std::int64_t>(kModelAgents) - (settings_.shares_name ? 1 : 0) : 1;
  message.rank = line.rank;
  message.nodes = line.nodes;
  if (line.kind == Kind::kFailed) message.ends = {{line.rank, -9}};
  return message;
}

bool HealingModel::Deliver(ModelState& state, ModelWire& wire) {
  const ModelLine line = wire.lines.front();
  wire.lines.erase(wire.lines.begin());
  ModelAgent& agent = state.agents[wire.agent];
  agent.heard = state.now;
  AgentMessage message = MessageOf(state, wire.agent, line);
  Coordination next = *state.coordination;
  const bool is_new = line.kind == Kind::kJoin || line.kind == Kind::kResume;
  if (settings_.mutant == ModelMutant::kNamesAreNotCompared && is_new) {
    for (const ModelWire& other : state.wires) {
      if (other.number == wire.number || NameOf(other.agent) != message.node) continue;
      next.OnMessage(other.number, {.kind = Kind::kLeave, .epoch = line.epoch}, state.now);
      next.OnClosed(other.number, state.now);
    }
  }
  next.OnMessage(wire.number, message, state.now);
  if (settings_.mutant == ModelMutant::kFailedIsStopped && line.kind == Kind::kFailed) {
    message.kind = Kind::kJoin;
    next.OnMessage(wire.number, message, state.now);
  }
  if (settings_.mutant == ModelMutant::kResumedIsRestarted && line.kind == Kind::kResume && state.ends > 0) {
    message.kind = Kind::kFailed;
    message.ends = {{0, -9}};
    next.OnMessage(wire.number, message, state.now);
  }
  return CarryOut(state, next);
}

bool HealingModel::Closed(ModelState& state, ModelWire& wire) {
  wire.coordinator_open = false;
  state.agents[wire.agent].heard = state.now;
  Coordination next = *state.coordination;
  if (settings_.mutant == ModelMutant::kCutOffIsGone) {
    next.OnMessage(wire.number, {.kind = Kind::kLeave}, state.now);
  }
  next.OnClosed(wire.number, state.now);
  return CarryOut(state, next);
}

bool HealingModel::Pause(ModelState& state) {
  for (int second = 0; second < kPauseSeconds; ++second) {
    state.now += 1;
    if (!state.coordination) continue;
    Coordination next = *state.coordination;
    for (const ModelWire& wire : state.wires) {
      const bool is_whole = wire.agent_open && wire.coordinator_open && !wire.broken;
      if (!is_whole || !wire.lines.empty() || !state.agents[wire.agent].is_alive) continue;
      next.OnMessage(wire.number, MessageOf(state, wire.agent, {Kind::kBeat, state.agents[wire.agent].epoch}),
                     state.now);
      state.agents[wire.agent].heard = state.now;
    }
    if (!CarryOut(state, next)) return false;
  }
  return true;
}

// One iteration of all nodes of the newest epoch.
bool HealingModel::Train(ModelState& state) {
  Coordination next = *state.coordination;
  const auto newest = std::ranges::max(state.agents, {}, &ModelAgent::epoch).epoch;
  for (const ModelWire& wire : state.wires) {
    const ModelAgent& agent = state.agents[wire.agent];
    if (!wire.agent_open || !agent.HasProcesses() || agent.epoch != newest) continue;
    AgentMessage beat = MessageOf(state, wire.agent, {Kind::kBeat, newest});
    beat.step = 10 * newest;
    next.OnMessage(wire.number, beat, state.now);
    state.agents[wire.agent].heard = state.now;
  }
  state.trained = newest;
  return CarryOut(state, next);
}

bool HealingModel::CanTrain(const ModelState& state) const {
  const std::int64_t newest = std::ranges::max(state.agents, {}, &ModelAgent::epoch).epoch;
  if (!state.coordination || newest <= state.trained) return false;
  std::int64_t runs = 0;
  std::int64_t nodes = 0;
  for (const ModelWire& wire : state.wires) {
    const ModelAgent& agent = state.agents[wire.agent];
    const bool is_whole = wire.agent_open && wire.coordinator_open && !wire.broken && wire.lines.empty();
    if (!is_whole || !agent.HasProcesses() || agent.has_failed || agent.epoch != newest) continue;
    ++runs;
    nodes = agent.nodes;
  }
  return runs > 0 && runs == nodes;
}

void HealingModel::Begin(ModelState& state) {
  Coordination next(0);
  for (const CoordinatorEntry& entry : *state.journal) {
    if (!settings_.has_journal) break;
    if (settings_.mutant == ModelMutant::kEpochsAreForgotten && entry.event == "epoch") continue;
    if (settings_.mutant == ModelMutant::kFailuresAreForgotten && entry.event == "failure") continue;
    if (llvm::Error error = next.Replay(entry, entry.time)) {
      Break("H5: what is written cannot be read: " + llvm::toString(std::move(error)));
    }
  }
  next.TakeEffects();
  next.Begin(state.now);
  state.coordination = std::make_shared<const Coordination>(std::move(next));
  for (ModelAgent& agent : state.agents) agent.heard = state.now;  // From here on it can be.
}

// One entry or line. False: the coordinator has ended before it.
bool HealingModel::Spend() {
  if (left_ && spent_ == *left_) return false;
  ++spent_;
  return true;
}

void HealingModel::Write(ModelState& state, const CoordinatorEntry& entry) {
  auto journal = std::make_shared<ModelEntries>(*state.journal);
  journal->push_back(entry);
  state.journal = std::move(journal);
}

void HealingModel::Send(ModelState& state, const CoordinatorEffects::Message& message) {
  for (ModelWire& wire : state.wires) {
    if (wire.number != message.to || !wire.coordinator_open || !wire.agent_open || wire.broken) continue;
    wire.orders.push_back({message.message.kind, message.message.epoch, message.message.rank, message.message.nodes,
                           message.message.refused});
  }
}

bool HealingModel::CarryOut(ModelState& state, Coordination& coordination) {
  coordination.OnTick(state.now);
  CoordinatorEffects effects = coordination.TakeEffects();
  state.coordination = std::make_shared<const Coordination>(std::move(coordination));
  const auto write = [&] {
    for (CoordinatorEntry& entry : effects.entries) {
      if (!Spend()) return false;
      entry.time = state.now;
      Write(state, entry);
    }
    return true;
  };
  const auto send = [&] {
    for (const CoordinatorEffects::Message& message : effects.messages) {
      if (!Spend()) return false;
      const bool is_old = message.message.reason == "the task has another epoch";
      if (settings_.mutant == ModelMutant::kOldProcessesStay && is_old) continue;
      CheckOrder(state, message);
      Send(state, message);
    }
    return true;
  };
  for (const CoordinatorEffects::Message& message : effects.messages) {
    const auto wire = std::ranges::find(state.wires, message.to, &ModelWire::number);
    if (message.message.refused && wire != state.wires.end()) state.agents[wire->agent].heard = kNever;
  }
  for (const CoordinatorEntry& entry : effects.entries) {
    CheckEpoch(state, entry);
    CheckAnswer(state, entry);
  }
  const bool sends_first = settings_.mutant == ModelMutant::kSendsFirst;
  if (sends_first ? !send() || !write() : !write() || !send()) return false;
  for (ModelWire& wire : state.wires) {
    if (std::ranges::find(effects.closed, wire.number) == effects.closed.end()) continue;
    wire.coordinator_open = false;
    wire.lines.clear();
  }
  return true;
}

}  // namespace ucp
