// A target in another layout of its model has tensors of its own, put together of pieces. Digests are made of them, and
// they say a shape of them. That no two pieces of a shard have a common place is proved elsewhere (pieces_apart.h). So
// it is enough to count where a shard is all of such a tensor: its pieces have as many places as it has.
//
// A shard that is a part of one says which elements of the tensor it holds, as product sets. Their places and those of
// the pieces are the same if they are as many, and if the pieces lie apart from all other places of the shard:
//
//   held     dimension 0 . 1 . .        free    dimension 0 × all of dimension 1
//            dimension 1 0 1 2 .                the held places of dimension 0 × place 3
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "compiler/support/checked_math.h"
#include "compiler/support/interruption.h"
#include "compiler/verifier/multiplicity.h"
#include "compiler/verifier/pieces_apart.h"
#include "compiler/verifier/unsound.h"
#include "compiler/verifier/verify_coverage.h"

namespace ucp {
namespace {

std::vector<ProductSet> SetsOf(const Plan& plan, const std::vector<SetId>& ids) {
  std::vector<ProductSet> sets;
  for (const SetId id : ids) sets.push_back(plan.set(id));
  return sets;
}

bool LiesWithin(const ProductSet& set, const std::vector<std::int64_t>& shape) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::vector<Run>& runs = set.dims[d].runs();
    if (!runs.empty() && runs.back().logical_begin + runs.back().length > shape[d]) return false;
  }
  return true;
}

llvm::Error VerifyHeldSets(const Plan& plan, const FusedTensor& fused) {
  const PartOfOwn& part = *fused.part;
  std::optional<std::int64_t> elements = 1;
  for (const std::int64_t length : part.shape) {
    elements = elements && length >= 0 ? CheckedMultiply(*elements, length) : std::nullopt;
  }
  if (!elements || part.shape.size() != fused.shape.size()) {
    return Unsound("a part of tensor `{}` of the target is of one with a shape that cannot be", fused.name);
  }
  if (part.held.empty()) return Unsound("a part of tensor `{}` of the target says no elements", fused.name);
  std::int64_t runs = 0;
  for (const SetId id : part.held) {
    const bool is_sane = id.index() < plan.sets.size() && plan.set(id).dims.size() == part.shape.size() &&
                         plan.set(id).LocalShape() == fused.shape && LiesWithin(plan.set(id), part.shape);
    if (!is_sane) return Unsound("a part of tensor `{}` of the target holds what that does not have", fused.name);
    for (const Selection& dim : plan.set(id).dims) runs += std::ssize(dim.runs());
    if (runs > kMostRunsOfShard) {
      return Unsound("the sets of a part of tensor `{}` of the target have more than {} runs", fused.name,
                     kMostRunsOfShard);
    }
  }
  return llvm::Error::success();
}

// The places of a dimension that are real in one of the sets.
Selection RealPlaces(const std::vector<ProductSet>& held, std::size_t dim) {
  std::vector<std::pair<std::int64_t, std::int64_t>> intervals;
  for (const ProductSet& set : held) {
    for (const Run& run : set.dims[dim].runs()) intervals.emplace_back(run.local_begin, run.local_begin + run.length);
  }
  std::ranges::sort(intervals);
  Selection places;
  for (const auto& [begin, end] : intervals) {
    const std::int64_t at = places.local_length();
    if (begin > at) places.AppendPadding(begin - at);
    if (end > std::max(begin, at)) places.Append(std::max(begin, at), end - std::max(begin, at));
  }
  places.AppendPadding(held.front().dims[dim].local_length() - places.local_length());
  return places;
}

// The places of a shard that are none of all the combinations of these.
std::vector<ProductSet> OtherPlaces(const std::vector<Selection>& real) {
  std::vector<ProductSet> others;
  for (std::size_t d = 0; d < real.size(); ++d) {
    ProductSet& set = others.emplace_back();
    for (std::size_t e = 0; e < real.size(); ++e) {
      const Selection all = Selection::Whole(real[e].local_length());
      set.dims.push_back(e < d ? real[e] : e == d ? all.KeepRest(real[e]) : all);
    }
  }
  return others;
}

llvm::Error VerifyPlacesOfPart(const Plan& plan, const PlanWrite& write) {
  const FusedTensor& fused = *write.fused;
  const std::vector<ProductSet> held = SetsOf(plan, fused.part->held);
  const auto multiplicity = MultiplicityOf(held, fused.part->shape);
  if (!multiplicity || multiplicity->most > 1) {
    return Unsound("a part of tensor `{}` of the target holds an element twice", fused.name);
  }
  std::int64_t elements = 0;
  for (const ProductSet& set : held) elements += set.real_elements();  // No more than the tensor has.
  std::vector<Selection> real;
  std::int64_t combinations = 1;
  for (std::size_t d = 0; d < fused.shape.size(); ++d) {
    real.push_back(RealPlaces(held, d));
    combinations *= real.back().real_length();
  }
  if (elements != combinations || !ShareOutPlaces(held)) {
    return Unsound("the sets of a part of tensor `{}` of the target do not share out its places", fused.name);
  }
  std::vector<WrittenPiece> pieces = write.pieces;
  std::vector<ProductSet> sets;
  std::int64_t places = 0;
  for (const WrittenPiece& piece : pieces) {
    sets.push_back(plan.set(piece.set));
    places += sets.back().real_elements();
  }
  if (places != elements) {
    return Unsound("a part of tensor `{}` of the target has {} elements, and its pieces have {}", fused.name, elements,
                   places);
  }
  for (ProductSet& set : OtherPlaces(real)) {
    sets.push_back(std::move(set));
    pieces.emplace_back();
  }
  if (LieApart(sets, pieces)) return llvm::Error::success();
  return Unsound("a piece of tensor `{}` of the target has a place that holds nothing of it", fused.name);
}

class OwnTensors {
 public:
  explicit OwnTensors(const Plan& plan) : plan_(plan) {}

  llvm::Error Add(const PlanWrite& write) {
    const FusedTensor& fused = *write.fused;
    const auto [first, is_new] = first_of_name_.try_emplace(fused.name, &fused);
    if (first->second->ShapeOfTensor() != fused.ShapeOfTensor()) {
      return Unsound("tensor `{}` of the target has two shapes", fused.name);
    }
    if (first->second->part.has_value() != fused.part.has_value()) {
      return Unsound("tensor `{}` of the target is all of a shard, and a part of another", fused.name);
    }
    if (fused.part) UCP_RETURN_IF_ERROR(VerifyHeldSets(plan_, fused));
    const auto [same, holds_others] = pieces_of_.try_emplace({fused.name, ContentsOf(fused)}, &write.pieces);
    if (!holds_others && *same->second != write.pieces) {
      return Unsound("two shards hold the same elements of tensor `{}` of the target, and are put together of others",
                     fused.name);
    }
    return fused.part ? AddPart(write) : VerifyWhole(write);
  }

  // Every element of a tensor is held somewhere, in each of its states.
  llvm::Error Finish() {
    for (auto& [name_and_state, held] : held_) {
      UCP_RETURN_IF_ERROR(CheckInterrupted());
      const auto& [name, state] = name_and_state;
      const std::vector<std::int64_t>& shape = first_of_name_.at(name)->part->shape;
      const auto [known, is_new] = covers_.try_emplace({std::vector<SetId>(held.begin(), held.end()), shape});
      if (is_new) {
        const auto multiplicity = MultiplicityOf(SetsOf(plan_, known->first.first), shape);
        known->second = multiplicity && multiplicity->least > 0;
      }
      if (!known->second)
        return Unsound("the parts of tensor `{}` of the target, state {}, lack elements", name, state);
    }
    return llvm::Error::success();
  }

 private:
  llvm::Error VerifyWhole(const PlanWrite& write) const {
    std::int64_t places = 0;
    for (const WrittenPiece& piece : write.pieces) places += plan_.set(piece.set).real_elements();
    if (places == plan_.LocalElements(write)) return llvm::Error::success();
    return Unsound("tensor `{}` of the target has {} elements, and its pieces have {}", write.fused->name,
                   plan_.LocalElements(write), places);
  }

  // One number for each set that is held, whichever ids it has; in order.
  std::vector<std::size_t> ContentsOf(const FusedTensor& fused) {
    std::vector<std::size_t> contents;
    if (!fused.part) return contents;
    for (const SetId id : fused.part->held) {
      const auto [known, is_new] = number_of_id_.try_emplace(id);
      if (is_new)
        known->second = number_of_set_.try_emplace(ToString(plan_.set(id)), number_of_set_.size()).first->second;
      contents.push_back(known->second);
    }
    std::ranges::sort(contents);
    return contents;
  }

  llvm::Error AddPart(const PlanWrite& write) {
    for (const StateBuffer& entry : plan_.target.buffer_set(write.states)) {
      std::set<SetId>& held = held_[{write.fused->name, entry.state}];
      held.insert(write.fused->part->held.begin(), write.fused->part->held.end());
    }
    std::vector<std::tuple<SetId, std::int64_t, std::vector<std::int64_t>>> alike;  // Whichever tensors it is of.
    for (const WrittenPiece& piece : write.pieces) alike.emplace_back(piece.set, piece.begin, piece.strides);
    const PartOfOwn& part = *write.fused->part;
    if (!known_.emplace(part.held, part.shape, std::move(alike)).second) return llvm::Error::success();
    return VerifyPlacesOfPart(plan_, write);
  }

  const Plan& plan_;
  std::map<std::string_view, const FusedTensor*> first_of_name_;
  std::map<std::pair<std::string_view, std::string_view>, std::set<SetId>> held_;  // By name and state.
  std::map<SetId, std::size_t> number_of_id_;
  std::map<std::string, std::size_t> number_of_set_;
  std::map<std::pair<std::string_view, std::vector<std::size_t>>, const std::vector<WrittenPiece>*> pieces_of_;
  std::map<std::pair<std::vector<SetId>, std::vector<std::int64_t>>, bool> covers_;
  std::set<std::tuple<std::vector<SetId>, std::vector<std::int64_t>,
                      std::vector<std::tuple<SetId, std::int64_t, std::vector<std::int64_t>>>>>
      known_;
};

}  // namespace

llvm::Error VerifyOwnTensors(const Plan& plan) {
  OwnTensors tensors(plan);
  for (const PlanWrite& write : plan.writes) {
    if (!write.fused) continue;
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    if (write.fused->part && !write.fused->is_tensor) {
      return Unsound("`{}` is a part of a tensor of the target, and none itself", write.fused->name);
    }
    if (write.fused->is_tensor) UCP_RETURN_IF_ERROR(tensors.Add(write));
  }
  return tensors.Finish();
}

}  // namespace ucp
