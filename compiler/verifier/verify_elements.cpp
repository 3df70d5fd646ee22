// V4: every element of every tensor is copied from one place, and stands in one place at least of the target.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/plan/state_feeds.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/verifier/multiplicity.h"
#include "compiler/verifier/pieces_apart.h"
#include "compiler/verifier/shards_of_tensors.h"
#include "compiler/verifier/verify_coverage.h"

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
  using Question = std::pair<std::vector<SetId>, std::vector<std::int64_t>>;  // Sets, and the shape of their tensor.

  // Many tensors are cut alike, and the states of one nearly always are; so each distinct question is answered once.
  std::optional<Multiplicity> HeldBy(const std::vector<SetId>& ids, const std::vector<std::int64_t>& shape) {
    if (last_ != nullptr && last_->first.first == ids && last_->first.second == shape) return last_->second;
    auto [known, added] = known_.try_emplace({ids, shape});
    if (added) {
      std::vector<ProductSet> sets;
      for (SetId id : ids) sets.push_back(plan_.set(id));
      known->second = MultiplicityOf(sets, shape);
    }
    last_ = &*known;
    return known->second;
  }

  const Plan& plan_;
  std::map<Question, std::optional<Multiplicity>> known_;
  const std::pair<const Question, std::optional<Multiplicity>>* last_ = nullptr;
};

// The sets that feed a state of the target.
std::vector<SetId> CopiedSets(const StateFeeds& feeds, llvm::ArrayRef<PlanRead> reads, const std::string& state) {
  std::vector<SetId> sets;
  for (const PlanRead& read : reads) {
    if (read.role == ReadRole::kCopy && feeds.Find(read, state)) sets.push_back(read.set);
  }
  return sets;
}

std::vector<SetId> WrittenSets(const Plan& plan, TensorId tensor, llvm::ArrayRef<std::uint32_t> writes,
                               const std::string& state) {
  std::vector<SetId> sets;
  for (std::uint32_t write : writes) {
    if (!FindState(plan.target.buffer_set(plan.writes[write].states), state)) continue;
    for (const WrittenPiece& piece : plan.writes[write].pieces) {
      if (piece.tensor == tensor) sets.push_back(piece.set);
    }
  }
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  return sets;
}

llvm::Error VerifyStates(const Plan& plan, const LogicalTensor& tensor, llvm::ArrayRef<std::uint32_t> writes) {
  for (std::uint32_t write : writes) {
    for (const StateBuffer& entry : plan.target.buffer_set(plan.writes[write].states)) {
      bool known = std::any_of(tensor.states.begin(), tensor.states.end(),
                               [&](const LogicalTensor::State& state) { return state.name == entry.state; });
      if (known) continue;
      return Fail(ErrorCode::kBadData, "the plan is not sound: tensor `{}` is written in state {}, which it lacks",
                  tensor.name, entry.state);
    }
  }
  return llvm::Error::success();
}

// The pieces without their tensors: many shards are put together alike.
using PiecesAlike = std::pair<bool, std::vector<std::tuple<SetId, std::int64_t, std::vector<std::int64_t>>>>;

std::int64_t RunsOf(const Plan& plan, const PlanWrite& write) {
  std::int64_t runs = 0;
  for (const WrittenPiece& piece : write.pieces) {
    for (const Selection& dim : plan.set(piece.set).dims) runs += std::ssize(dim.runs());
  }
  return runs;
}

PiecesAlike PlacesOf(const PlanWrite& write) {
  PiecesAlike places{write.fused.has_value(), {}};
  for (const WrittenPiece& piece : write.pieces) places.second.emplace_back(piece.set, piece.begin, piece.strides);
  return places;
}

}  // namespace

llvm::Error VerifyElements(const Plan& plan) {
  const StateFeeds feeds(plan);
  const ShardsOfTensors shards(plan);
  ElementChecker checker(plan);
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const TensorId id(t);
    UCP_RETURN_IF_ERROR(VerifyStates(plan, plan.tensors[t].logical, shards.WritesOf(id)));
    for (const LogicalTensor::State& state : plan.tensors[t].logical.states) {
      llvm::ArrayRef<PlanRead> reads = shards.ReadsOf(id);  // Sorted by term.
      for (std::int64_t term = 0; term < plan.tensors[t].arithmetic.terms; ++term) {
        const auto of_term = reads.take_while([&](const PlanRead& read) { return read.term == term; });
        reads = reads.drop_front(of_term.size());
        UCP_RETURN_IF_ERROR(
            checker.Check(id, state.name, CopiedSets(feeds, of_term, state.name), Wanted::kOnce, "source"));
      }
      UCP_RETURN_IF_ERROR(checker.Check(id, state.name, WrittenSets(plan, id, shards.WritesOf(id), state.name),
                                        Wanted::kOnceAtLeast, "target"));
    }
  }
  return llvm::Error::success();
}

llvm::Error VerifyPlaces(const Plan& plan) {
  std::set<PiecesAlike> known;
  for (const PlanWrite& write : plan.writes) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    if (write.pieces.size() == 1 || !known.insert(PlacesOf(write)).second) continue;
    if (RunsOf(plan, write) > kMostRunsOfShard) {
      return Fail(ErrorCode::kBadData, "the plan is not sound: the pieces of a shard of tensor `{}` have {} runs",
                  plan.NameOf(write), RunsOf(plan, write));
    }
    std::vector<ProductSet> sets;
    for (const WrittenPiece& piece : write.pieces) sets.push_back(plan.set(piece.set));
    if (write.fused ? LieApart(sets, write.pieces) : ShareOutPlaces(sets)) continue;
    return Fail(ErrorCode::kBadData, "the plan is not sound: two pieces of a shard of tensor `{}` have one place",
                plan.NameOf(write));
  }
  return llvm::Error::success();
}

}  // namespace ucp
