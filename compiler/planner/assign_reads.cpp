// Decides which shard gives each element. Shards of one tensor are taken in mesh order. Elements that no earlier shard
// holds are copied from this one; those that an earlier one also holds are replicas, and are compared with the written
// ones. Where only a part is a replica (keys and values that every rank holds beside queries that are cut), the shard
// is read twice, with disjoint sets:
//
//     shard of tp=0   [ q q q | k k v v ]   all of it is copied
//     shard of tp=1   [ q q q | . . . . ]   copied       '.' is padding in the set: same places, not read
//                     [ . . . | k k v v ]   compared
//
// States that lie elsewhere than the others of their tensor are in shards of their own (join.h), and each set of
// states is given out by itself.
//
// Where the user believes a rank over others (--prefer-rank), its shards are taken first. Copies of their elements on
// other ranks are overruled: they are compared as well, but a difference is reported and not refused.
#include <fmt/format.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "compiler/planner/draft.h"
#include "compiler/sets/take_apart.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

// The shards of one rank, in the order in which the format listed them.
struct ShardsOfRank {
  bool is_believed = false;
  std::vector<const Shard*> shards;
};

// In mesh order, so that the lowest rank is the first to give an element; those that the user believes before others.
std::vector<ShardsOfRank> ShardsByRank(const Inventory& inventory) {
  std::map<Coordinate, ShardsOfRank> by_coordinate;
  auto rank = by_coordinate.end();
  for (const Shard& shard : inventory.storage.shards) {
    const bool is_as_before = rank != by_coordinate.end() && rank->first == shard.coordinate;
    if (!is_as_before) rank = by_coordinate.try_emplace(shard.coordinate).first;
    rank->second.shards.push_back(&shard);
  }
  std::vector<ShardsOfRank> ranks;
  for (auto& [coordinate, of_rank] : by_coordinate) {
    of_rank.is_believed = inventory.preference.Prefers(coordinate);
    ranks.push_back(std::move(of_rank));
  }
  std::stable_partition(ranks.begin(), ranks.end(), [](const ShardsOfRank& of_rank) { return of_rank.is_believed; });
  return ranks;
}

class Assigner {
 public:
  Assigner(const PlanRequest& request, PlanDraft& draft)
      : request_(request),
        draft_(draft),
        first_stage_counts_(request.inventory.first_stage_counts.begin(), request.inventory.first_stage_counts.end()) {
    draft.plan.reads.reserve(request.inventory.storage.shards.size());
    copied_.reserve(draft.plan.tensors.size());
    for (const PlanTensor& tensor : draft.plan.tensors) {
      copied_.emplace_back(static_cast<std::size_t>(tensor.arithmetic.terms));
    }
  }

  llvm::Error Run() {
    for (const ShardsOfRank& rank : ShardsByRank(request_.inventory)) {
      for (const Shard* shard : rank.shards) {
        UCP_RETURN_IF_ERROR(CheckInterrupted());
        UCP_RETURN_IF_ERROR(Assign(*shard, rank.is_believed));
      }
    }
    UCP_RETURN_IF_ERROR(CheckComplete());
    SortBy(draft_.plan.reads, [](const PlanRead& read) { return std::tuple(read.tensor, read.term, read.role); });
    return llvm::Error::success();
  }

 private:
  // The sets that are copied from the ranks that the user believes, and from the others, of states that are held
  // together.
  struct Copied {
    BufferSetId states;  // Of the first shard.
    EarlierSets believed;
    EarlierSets others;
  };
  using CopiedOfStates = llvm::SmallVector<Copied, 1>;

  llvm::Error Assign(const Shard& shard, bool is_believed) {
    const TensorLayout* layout = draft_.source_tensors.Find(shard.tensor);
    if (layout == nullptr) return AssignDropped(shard);
    const TensorId id = draft_.TensorOf(*layout);
    UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(*layout, request_.source_layout.mesh, shard.coordinate));
    if (set.LocalShape() != shard.shape) {
      return Fail(ErrorCode::kBadData, "tensor `{}` at {} has the shape [{}] in the checkpoint, and {} makes it [{}]",
                  shard.tensor, ToString(shard.coordinate), fmt::join(shard.shape, ", "), layout->declared_at,
                  fmt::join(set.LocalShape(), ", "));
    }
    PlanRead read{id,           ReadRole::kCopy, SetId(0), shard.coordinate, shard.strides, shard.base,
                  shard.spread, shard.states,    ""};
    read.reason = WhyUnused(shard, *layout);
    if (!read.reason.empty()) return AddUnused(read, set);
    read.term = TermOf(*layout, shard.coordinate);
    bool is_weight = draft_.plan.source.buffer_set(shard.states).front().state == kWeightState;
    bool master_is_there = request_.tensors[id.index()].states.front().name != kWeightState;
    if (is_weight && master_is_there) return AssignWeight(read, set, is_believed);
    return AssignStates(read, set, is_believed);
  }

  CopiedOfStates& AllCopiedOf(const PlanRead& read) {
    return copied_[read.tensor.index()][static_cast<std::size_t>(read.term)];
  }

  // Of those that hold `state`; null if there is none yet.
  Copied* FindCopied(const PlanRead& read, const std::string& state) {
    for (Copied& copied : AllCopiedOf(read)) {
      if (FindState(draft_.plan.source.buffer_set(copied.states), state)) return &copied;
    }
    return nullptr;
  }

  Copied& CopiedOf(const PlanRead& read) {
    Copied* known = FindCopied(read, draft_.plan.source.buffer_set(read.states).front().state);
    return known != nullptr ? *known : AllCopiedOf(read).emplace_back(Copied{read.states, {}, {}});
  }

  llvm::Error AssignStates(PlanRead& read, const ProductSet& set, bool is_believed) {
    Copied& copied = CopiedOf(read);
    for (const ProductSet& piece : IncreasingPieces(set)) {
      SetParts believed = is_believed ? SetParts{{piece}, {}} : copied.believed.TakeApart(piece);
      UCP_RETURN_IF_ERROR(AddReplicas(read, believed.replicas, true));
      for (const ProductSet& rest : believed.fresh) {
        EarlierSets& equals = is_believed ? copied.believed : copied.others;
        SetParts parts = equals.TakeApart(rest);
        for (const ProductSet& fresh : parts.fresh) {
          UCP_RETURN_IF_ERROR(Add(read, ReadRole::kCopy, fresh));
          if (fresh.real_elements() > 0) equals.Add(fresh);
        }
        UCP_RETURN_IF_ERROR(AddReplicas(read, parts.replicas, false));
      }
    }
    return llvm::Error::success();
  }

  llvm::Error AddReplicas(PlanRead& read, const std::vector<ProductSet>& replicas, bool are_overruled) {
    for (const ProductSet& replica : replicas) {
      read.is_overruled = are_overruled;
      UCP_RETURN_IF_ERROR(AddIfCompared(read, ReadRole::kCompare, replica, "a replica, and replicas are trusted"));
    }
    read.is_overruled = false;
    return llvm::Error::success();
  }

  // The number of the drifted copy that a rank holds: its place on the axes of the mean, in the order of its mesh.
  std::int64_t TermOf(const TensorLayout& layout, const Coordinate& coordinate) const {
    if (layout.mean_axes.empty()) return 0;
    const Mesh& mesh = request_.source_layout.mesh;
    std::vector<std::string> axes = layout.axes;
    if (axes.empty()) {
      for (const Axis& axis : mesh.axes) axes.push_back(axis.name);
    }
    std::int64_t term = 0;
    for (const std::string& axis : axes) {
      bool is_averaged = std::find(layout.mean_axes.begin(), layout.mean_axes.end(), axis) != layout.mean_axes.end();
      if (is_averaged) term = term * mesh.Size(axis) + coordinate.At(axis);
    }
    return term;
  }

  llvm::Error AssignWeight(PlanRead& read, const ProductSet& set, bool is_believed) {
    if (std::int64_t terms = draft_.plan.tensor(read.tensor).arithmetic.terms; terms > 1) {
      read.reason = fmt::format("its tensor is the mean of {} ranks, of which no weight is the rounding", terms);
      return AddUnused(read, set);
    }
    const EarlierSets nobody;
    const Copied* masters = FindCopied(read, kMasterState);
    for (const ProductSet& piece : IncreasingPieces(set)) {
      const EarlierSets& believed = is_believed || masters == nullptr ? nobody : masters->believed;
      const SetParts parts = believed.TakeApart(piece);
      for (const auto& [sets, are_overruled] : {std::pair(&parts.fresh, false), std::pair(&parts.replicas, true)}) {
        read.is_overruled = are_overruled;
        for (const ProductSet& part : *sets) {
          UCP_RETURN_IF_ERROR(
              AddIfCompared(read, ReadRole::kCheckRounding, part, "its master is written, and replicas are trusted"));
        }
      }
    }
    return llvm::Error::success();
  }

  llvm::Error AddUnused(const PlanRead& read, const ProductSet& set) {
    for (const ProductSet& piece : IncreasingPieces(set)) UCP_RETURN_IF_ERROR(Add(read, ReadRole::kUnused, piece));
    return llvm::Error::success();
  }

  llvm::Error AddIfCompared(const PlanRead& read, ReadRole role, const ProductSet& set, const char* why_not) {
    if (request_.replicas == ReplicaPolicy::kCompare) return Add(read, role, set);
    UCP_RETURN_IF_ERROR(Add(read, ReadRole::kUnused, set));
    draft_.plan.reads.back().reason = why_not;
    return llvm::Error::success();
  }

  llvm::Error Add(const PlanRead& read, ReadRole role, const ProductSet& set) {
    PlanRead& added = draft_.plan.reads.emplace_back(read);
    added.role = role;
    added.set = draft_.Intern(set);
    return llvm::Error::success();
  }

  // Empty if the shard is to be used.
  std::string WhyUnused(const Shard& shard, const TensorLayout& layout) const {
    std::int64_t stage = shard.coordinate.At("pp");
    const std::vector<std::int64_t>& unused = layout.unused_stages;
    if (std::find(unused.begin(), unused.end(), stage) != unused.end()) {
      return fmt::format("declared unused on stage {} by {}", stage, layout.declared_at);
    }
    bool by_metadata = request_.spec_hash.empty() && first_stage_counts_.contains(shard.tensor) && stage > 0;
    return by_metadata ? "the checkpoint's metadata says that the first stage's copy counts" : "";
  }

  // A tensor that the spec drops has an entry of its own, without states.
  llvm::Error AssignDropped(const Shard& shard) {
    auto [entry, added] = draft_.tensor_of_name.try_emplace(llvm::CachedHashStringRef(shard.tensor),
                                                            TensorId(draft_.plan.tensors.size()));
    if (added)
      draft_.plan.tensors.push_back(
          {LogicalTensor{shard.tensor, shard.kind, shard.shape, {}, {}}, "a `drop` of the spec"});
    PlanRead read{entry->second, ReadRole::kUnused, SetId(0),     shard.coordinate,     shard.strides,
                  shard.base,    shard.spread,      shard.states, "dropped by the spec"};
    ProductSet set = ProductSet::Whole(shard.shape);
    bool fits = draft_.plan.tensor(entry->second).logical.shape == shard.shape;
    if (!fits) {  // Another rank's shard has another shape: say only that this one is dropped.
      draft_.plan.tensors.push_back(
          {LogicalTensor{shard.tensor, shard.kind, shard.shape, {}, {}}, "a `drop` of the spec"});
      read.tensor = TensorId(draft_.plan.tensors.size() - 1);
    }
    return Add(read, ReadRole::kUnused, set);
  }

  llvm::Error CheckComplete() const {
    for (std::size_t t = 0; t < request_.tensors.size(); ++t) {
      for (std::int64_t term = 0; term < draft_.plan.tensors[t].arithmetic.terms; ++term) {
        UCP_RETURN_IF_ERROR(CheckComplete(TensorId(t), term));
      }
    }
    return llvm::Error::success();
  }

  llvm::Error CheckComplete(TensorId id, std::int64_t term) const {
    const PlanTensor& tensor = draft_.plan.tensor(id);
    std::int64_t elements = 1;
    for (std::int64_t length : tensor.logical.shape) elements *= length;
    std::int64_t held = 0;
    bool is_complete = false;
    std::string states;  // Only if others lie elsewhere.
    const CopiedOfStates& all = copied_[id.index()][static_cast<std::size_t>(term)];
    for (const Copied& copied : all) {
      held = 0;
      states = all.size() > 1 ? StatesOf(copied) + " of " : "";
      for (const auto* list : {&copied.believed, &copied.others}) {
        for (const ProductSet& set : list->sets()) held += set.real_elements();
      }
      is_complete = held == elements;
      if (!is_complete) break;
    }
    if (is_complete || elements == 0) return llvm::Error::success();
    std::int64_t terms = tensor.arithmetic.terms;
    if (held == 0 && term > 0) {
      return Fail(ErrorCode::kBadData,
                  "{} averages tensor `{}` over {} copies, and the checkpoint has {}; either files of some ranks are "
                  "missing, or ranks share one copy, as those of dp do under ZeRO",
                  tensor.declared_at, tensor.logical.name, terms, term);
    }
    std::string which = terms == 1 ? "" : fmt::format(", at place {} of {} that are averaged,", term, terms);
    return Fail(ErrorCode::kBadData,
                "the shards of tensor `{}`{} hold {}{} of its {} elements; are files of some ranks missing, or does {} "
                "cut it by an axis that the checkpoint is not cut by?",
                tensor.logical.name, which, states, held, elements, tensor.declared_at);
  }

  std::string StatesOf(const Copied& copied) const {
    std::vector<std::string> names;
    for (const StateBuffer& held : draft_.plan.source.buffer_set(copied.states)) {
      names.push_back(fmt::format("`{}`", held.state));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

  const PlanRequest& request_;
  PlanDraft& draft_;
  std::unordered_set<std::string_view> first_stage_counts_;
  std::vector<std::vector<CopiedOfStates>> copied_;  // By tensor and term.
};

}  // namespace

llvm::Error AssignReads(const PlanRequest& request, PlanDraft& draft) { return Assigner(request, draft).Run(); }

}  // namespace ucp
