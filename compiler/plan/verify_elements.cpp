// V4: every element of every tensor is copied from one place, and stands in one place at least of the target.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/plan/multiplicity.h"
#include "compiler/plan/state_feeds.h"
#include "compiler/plan/verify_coverage.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

enum class Wanted { kOnce, kOnceAtLeast };

class ElementChecker {
 public:
  explicit ElementChecker(const Plan& plan) : plan_(plan) {}

  llvm::Error Check(TensorId tensor, const std::string& state, std::vector<SetId> sets, Wanted wanted,
                    const char* side) {
    const LogicalTensor& logical = plan_.tensor(tensor).logical;
    std::sort(sets.begin(), sets.end());
    std::optional<Multiplicity> held = HeldBy(sets, logical.shape);
    if (!held) {
      return Fail(ErrorCode::kBadData, "the plan is not sound: the {} shards of tensor `{}` lie across one another",
                  sets.size(), logical.name);
    }
    bool twice = wanted == Wanted::kOnce && held->most > 1;
    if (held->least > 0 && !twice) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "the plan is not sound: an element of tensor `{}`, state {}, {} the {}",
                logical.name, state, twice ? "is in two shards of" : "is in no shard of", side);
  }

 private:
  // Many tensors are cut alike, so each distinct question is answered once.
  std::optional<Multiplicity> HeldBy(const std::vector<SetId>& ids, const std::vector<std::int64_t>& shape) {
    auto [known, added] = known_.try_emplace({ids, shape});
    if (added) {
      std::vector<ProductSet> sets;
      for (SetId id : ids) sets.push_back(plan_.set(id));
      known->second = MultiplicityOf(sets, shape);
    }
    return known->second;
  }

  const Plan& plan_;
  std::map<std::pair<std::vector<SetId>, std::vector<std::int64_t>>, std::optional<Multiplicity>> known_;
};

using StateKey = std::pair<TensorId, std::string>;

// What feeds each state of the target, by term.
std::map<StateKey, std::map<std::int64_t, std::vector<SetId>>> CopiedSets(const Plan& plan) {
  StateFeeds feeds(plan);
  std::map<StateKey, std::map<std::int64_t, std::vector<SetId>>> copied;
  for (const PlanRead& read : plan.reads) {
    if (read.role != ReadRole::kCopy) continue;
    for (const LogicalTensor::State& state : plan.tensor(read.tensor).logical.states) {
      if (feeds.Find(read, state.name)) copied[{read.tensor, state.name}][read.term].push_back(read.set);
    }
  }
  return copied;
}

std::map<StateKey, std::set<SetId>> WrittenSets(const Plan& plan) {
  std::map<StateKey, std::set<SetId>> written;
  for (const PlanWrite& write : plan.writes) {
    for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
      written[{write.tensor, entry.state}].insert(write.pieces.begin(), write.pieces.end());
    }
  }
  return written;
}

llvm::Error VerifyStates(const Plan& plan, const std::map<StateKey, std::set<SetId>>& written) {
  for (const auto& [key, sets] : written) {
    const LogicalTensor& tensor = plan.tensor(key.first).logical;
    bool known = std::any_of(tensor.states.begin(), tensor.states.end(),
                             [&](const LogicalTensor::State& state) { return state.name == key.second; });
    if (known) continue;
    return Fail(ErrorCode::kBadData, "the plan is not sound: tensor `{}` is written in state {}, which it lacks",
                tensor.name, key.second);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error VerifyElements(const Plan& plan) {
  auto copied = CopiedSets(plan);
  std::map<StateKey, std::set<SetId>> written = WrittenSets(plan);
  UCP_RETURN_IF_ERROR(VerifyStates(plan, written));
  ElementChecker checker(plan);
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    for (const LogicalTensor::State& state : plan.tensors[t].logical.states) {
      StateKey key(TensorId(t), state.name);
      for (std::int64_t term = 0; term < plan.tensors[t].arithmetic.terms; ++term) {
        UCP_RETURN_IF_ERROR(checker.Check(TensorId(t), state.name, copied[key][term], Wanted::kOnce, "source"));
      }
      const std::set<SetId>& sets = written[key];
      UCP_RETURN_IF_ERROR(
          checker.Check(TensorId(t), state.name, {sets.begin(), sets.end()}, Wanted::kOnceAtLeast, "target"));
    }
  }
  return llvm::Error::success();
}

llvm::Error VerifyPlaces(const Plan& plan) {
  std::set<std::vector<SetId>> known;
  for (const PlanWrite& write : plan.writes) {
    if (write.pieces.size() == 1 || !known.insert(write.pieces).second) continue;
    std::vector<ProductSet> pieces;
    for (SetId piece : write.pieces) pieces.push_back(plan.set(piece));
    if (ShareOutPlaces(pieces)) continue;
    return Fail(ErrorCode::kBadData, "the plan is not sound: two pieces of a shard of tensor `{}` have one place",
                plan.tensor(write.tensor).logical.name);
  }
  return llvm::Error::success();
}

}  // namespace ucp
