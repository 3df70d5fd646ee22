// The agents of the model: what each may do next, and what it then says.
#include <algorithm>

#include "tests/unit/runtime/coordinator/healing_model.h"

namespace ucp {
namespace {

using Kind = AgentMessage::Kind;
using Order = CoordinatorMessage::Kind;
constexpr int kSecondsForAnswer = 10;

ModelWire* WireOf(ModelState& state, std::size_t agent) {
  const auto found =
      std::ranges::find_if(state.wires, [&](const ModelWire& wire) { return wire.agent == agent && wire.agent_open; });
  return found == state.wires.end() ? nullptr : &*found;
}

void Leave(ModelWire& wire) {
  wire.agent_open = false;
  wire.orders.clear();
}

}  // namespace

void HealingModel::OfAgent(ModelState& state, const ModelStep& step) const {
  ModelAgent& agent = state.agents[step.place];
  switch (step.kind) {
    case ModelStep::Kind::kConnect:
      return Connect(state, step.place);
    case ModelStep::Kind::kReceive:
      return Receive(state, step.place);
    case ModelStep::Kind::kAct:
      return Act(state, step.place);
    case ModelStep::Kind::kNotice:
      return Leave(*WireOf(state, step.place));
    case ModelStep::Kind::kFail:
      ++state.failures;
      agent.has_failed = true;
      agent.failed = state.now;
      return Say(state, step.place, Kind::kFailed);
    case ModelStep::Kind::kFinish:
      agent.has_ended = true;
      return Say(state, step.place, Kind::kEnded);
    case ModelStep::Kind::kKill:
      ++state.kills;
      agent.is_alive = false;
      if (ModelWire* wire = WireOf(state, step.place)) Leave(*wire);
      return;
    default:  // kReturn.
      ++state.returns;
      agent = ModelAgent();
      agent.start = state.returns;
      agent.heard = state.now;
  }
}

void HealingModel::Say(ModelState& state, std::size_t number, Kind kind) const {
  ModelWire* wire = WireOf(state, number);
  if (wire == nullptr || wire->broken || !wire->coordinator_open) return;
  const ModelAgent& agent = state.agents[number];
  wire->lines.push_back({kind, agent.epoch, agent.rank, agent.nodes});
}

void HealingModel::Introduce(ModelState& state, std::size_t number) const {
  const ModelAgent& agent = state.agents[number];
  Say(state, number, agent.joins || agent.epoch == 0 ? Kind::kJoin : Kind::kResume);
  if (agent.has_ended) Say(state, number, Kind::kEnded);
}

void HealingModel::Connect(ModelState& state, std::size_t number) const {
  Connection free = 1;
  while (std::ranges::any_of(state.wires, [&](const ModelWire& wire) { return wire.number == free; })) ++free;
  state.wires.push_back({.number = free, .agent = number, .lines = {}, .orders = {}});
  state.agents[number].offer.reset();  // It says that it has no processes.
  Introduce(state, number);
}

// Agent._take() in _agent.py.
void HealingModel::Receive(ModelState& state, std::size_t number) const {
  ModelAgent& agent = state.agents[number];
  ModelWire& wire = *WireOf(state, number);
  const ModelOrder order = wire.orders.front();
  wire.orders.erase(wire.orders.begin());
  if (order.kind == Order::kWorld) {
    if (agent.joins && order.epoch > agent.epoch) agent.offer = order;
  } else if (order.kind == Order::kRestart && agent.joins) {
    if (!agent.offer || order.epoch < agent.offer->epoch) return;
    agent.offer.reset();
    Introduce(state, number);
  } else if (order.kind == Order::kClose && order.refused && agent.epoch > 0 && !agent.joins) {
    Leave(wire);
  } else if (order.kind == Order::kClose || (agent.HasProcesses() && order.epoch >= agent.epoch)) {
    agent.order = order;
    agent.was_told = agent.was_told || order.kind == Order::kRestart;
  }
}

bool HealingModel::CanAct(const ModelState& state, std::size_t number) const {
  const ModelAgent& agent = state.agents[number];
  if (!agent.is_alive) return false;
  if (agent.order || agent.has_ended) return true;
  if (agent.joins) return agent.offer.has_value();
  if (!agent.has_failed) return false;
  const bool has_wire =
      std::ranges::any_of(state.wires, [&](const ModelWire& wire) { return wire.agent == number && wire.agent_open; });
  return !has_wire || state.now - agent.failed >= kSecondsForAnswer;
}

// torchrun's own thread: Agent.join() and CoordinatedRendezvous.judge().
void HealingModel::Act(ModelState& state, std::size_t number) const {
  ModelAgent& agent = state.agents[number];
  if ((agent.order && agent.order->kind == Order::kClose) || agent.has_ended) return End(state, number);
  if (!agent.joins) return Rejoin(state, number);
  agent.joins = agent.was_told = false;
  agent.epoch = agent.offer->epoch;
  agent.rank = agent.offer->rank;
  agent.nodes = agent.offer->nodes;
  agent.offer.reset();
}

// Its processes have ended before.
void HealingModel::Rejoin(ModelState& state, std::size_t number) const {
  ModelAgent& agent = state.agents[number];
  agent.joins = true;
  agent.has_failed = false;
  agent.failed = 0;
  agent.order.reset();
  Introduce(state, number);
}

void HealingModel::End(ModelState& state, std::size_t number) const {
  Say(state, number, Kind::kLeave);
  state.agents[number].is_alive = false;
  if (ModelWire* wire = WireOf(state, number)) Leave(*wire);
}

std::vector<ModelStep> HealingModel::StepsOf(const ModelState& state) const {
  using Step = ModelStep::Kind;
  std::vector<ModelStep> steps;
  for (std::size_t i = 0; i < state.agents.size(); ++i) {
    const ModelAgent& agent = state.agents[i];
    const auto wire =
        std::ranges::find_if(state.wires, [&](const ModelWire& one) { return one.agent == i && one.agent_open; });
    const bool has_wire = wire != state.wires.end();
    if (!agent.is_alive) {
      if (state.returns < settings_.returns) steps.push_back({Step::kReturn, i});
      continue;
    }
    const bool is_over = agent.order && agent.order->kind == Order::kClose;
    if (!has_wire && state.coordination && !is_over) steps.push_back({Step::kConnect, i});
    if (has_wire && !wire->broken && !wire->orders.empty()) steps.push_back({Step::kReceive, i});
    const bool has_gone = has_wire && (wire->broken || (!wire->coordinator_open && wire->orders.empty()));
    if (has_gone) steps.push_back({Step::kNotice, i});
    if (CanAct(state, i)) steps.push_back({Step::kAct, i});
    if (agent.HasProcesses() && !agent.has_failed) {
      if (state.failures < settings_.failures) steps.push_back({Step::kFail, i});
      if (settings_.finishes) steps.push_back({Step::kFinish, i});
    }
    if (state.kills < settings_.kills) steps.push_back({Step::kKill, i});
  }
  for (std::size_t i = 0; i < state.wires.size(); ++i) {
    const ModelWire& wire = state.wires[i];
    const bool is_whole = wire.agent_open && wire.coordinator_open && !wire.broken;
    if (is_whole && state.cuts < settings_.cuts) steps.push_back({Step::kCut, i});
    if (!wire.coordinator_open) continue;
    if (!wire.lines.empty()) steps.push_back({Step::kDeliver, i});
    if (wire.lines.empty() && (wire.broken || !wire.agent_open)) steps.push_back({Step::kClosed, i});
  }
  if (state.pauses < settings_.pauses) steps.push_back({Step::kPause});
  if (!state.coordination) steps.push_back({Step::kBegin});
  if (settings_.trains && CanTrain(state)) steps.push_back({Step::kTrain});
  return steps;
}

}  // namespace ucp
