#include "runtime/load_plan/rank_states.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/plan/steps.h"

namespace ucp {
namespace {

class StatesOfRank {
 public:
  StatesOfRank(const LoadPlan& load, int rank) : plan_(load.plan), is_read_(plan_.target.records.size(), false) {
    for (RecordId record : load.RecordsOf(rank)) is_read_[record.index()] = true;
  }

  std::vector<PlacedState> Find() {
    for (const PlanWrite& write : plan_.writes) {
      if (plan_.tensor(write.first_tensor()).logical.kind == TensorKind::kCarried) continue;
      for (const StateBuffer& state : plan_.target.buffer_set(write.states)) Add(write, state);
    }
    for (PlacedState& state : states_) {
      std::sort(state.pieces.begin(), state.pieces.end(),
                [](const StatePiece& a, const StatePiece& b) { return a.begin < b.begin; });
    }
    return std::move(states_);
  }

 private:
  void Add(const PlanWrite& write, const StateBuffer& state) {
    const Buffer& buffer = plan_.target.buffer(state.buffer);
    const std::int64_t elements = plan_.LocalElements(write);
    for (const Fragment& fragment : FragmentsOf(write.spread, write.base, elements, buffer, 0, elements)) {
      const BufferPart& part = buffer.parts[fragment.part];
      if (!is_read_[part.record.index()]) continue;
      PlacedState& entry = EntryOf(write, state.state, buffer.dtype);
      if (entry.coordinate != write.coordinate) continue;
      const StatePiece piece{part.record, part.first_element + fragment.place, fragment.begin, fragment.end};
      const bool is_again = std::any_of(entry.pieces.begin(), entry.pieces.end(), [&](const StatePiece& other) {
        return piece.begin < other.end && other.begin < piece.end;
      });
      if (!is_again) entry.pieces.push_back(piece);
    }
  }

  PlacedState& EntryOf(const PlanWrite& write, const std::string& state, DType dtype) {
    auto [number, added] = numbers_.try_emplace({plan_.NameOf(write), state}, states_.size());
    if (added) {
      states_.push_back({plan_.NameOf(write), state, dtype, plan_.LocalShape(write), write.coordinate, {}});
    }
    return states_[number->second];
  }

  const Plan& plan_;
  std::vector<bool> is_read_;  // By RecordId.
  std::map<std::pair<std::string, std::string>, std::size_t> numbers_;
  std::vector<PlacedState> states_;
};

}  // namespace

std::vector<PlacedState> StatesOf(const LoadPlan& load, int rank) { return StatesOfRank(load, rank).Find(); }

}  // namespace ucp
