#include "runtime/same_states/same_states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/difference/compare_checkpoints.h"
#include "runtime/elements/element_text.h"
#include "runtime/engine/buffers.h"
#include "runtime/resources/resident_memory.h"

namespace ucp {
namespace {

using Digests = std::map<std::pair<std::string, std::string>, std::string>;

Digests DigestsOf(const SameSide& side) {
  Digests digests;
  for (const StateDigest& entry : side.source.report.digests) digests[{entry.tensor, entry.state}] = entry.digest;
  return digests;
}

bool CanBeSame(const StatePair& pair) {
  return HasBoth(pair) && (pair.cast != DeclaredCast::kNone || pair.a->range.dtype == pair.b->range.dtype);
}

// A digest is one of a state by its name.
bool NeedsElements(const StatePair& pair, bool by_elements) {
  return CanBeSame(pair) && (by_elements || pair.cast != DeclaredCast::kNone || pair.a->name != pair.b->name);
}

std::string Text(const WholeState& state) { return fmt::format("{} {}", state.name, Name(state.range.dtype)); }

class Judging {
 public:
  Judging(const SameSide& a, const SameSide& b, bool by_elements)
      : a_(a), b_(b), digests_a_(DigestsOf(a)), digests_b_(DigestsOf(b)) {
    result_.by_elements = by_elements;
  }

  void Add(const TensorPair& tensor) {
    if (tensor.a == nullptr || tensor.b == nullptr || tensor.a->shape == tensor.b->shape) return;
    Differ("`{}` differs: its shape is [{}] in {}, [{}] in {}", NameOf(tensor), fmt::join(tensor.a->shape, ", "),
           a_.name, fmt::join(tensor.b->shape, ", "), b_.name);
  }

  // `difference`: of elements that were compared; else null.
  void Add(const TensorPair& tensor, const StatePair& pair, const Difference* difference) {
    if (!HasBoth(pair)) {
      AddOfOne(tensor, pair);
    } else if (!CanBeSame(pair)) {
      Differ("`{}` differs: {} in {}, {} in {}", NameOf(tensor), Text(*pair.a), a_.name, Text(*pair.b), b_.name);
    } else if (difference == nullptr) {
      AddByDigest(tensor, pair);
    } else if (pair.cast != DeclaredCast::kNone) {
      AddCast(tensor, pair, *difference);
    } else if (difference->elements == 0) {
      ++result_.same;
    } else {
      const bool is_one_state = pair.a->name == pair.b->name;
      Differ("`{}` {} differs{} in {}", NameOf(tensor), pair.a->name,
             is_one_state ? "" : fmt::format(" from {}", pair.b->name),
             ElementsText(tensor, pair, difference->elements, difference->first));
    }
  }

  SameStates Take() { return std::move(result_); }

 private:
  template <typename... Arguments>
  void Differ(fmt::format_string<Arguments...> sentence, Arguments&&... arguments) {
    result_.differences.push_back(fmt::format(sentence, std::forward<Arguments>(arguments)...));
  }

  static const std::string& NameOf(const TensorPair& tensor) {
    return tensor.a != nullptr ? tensor.a->name : tensor.b->name;
  }

  void AddOfOne(const TensorPair& tensor, const StatePair& pair) {
    const std::string& state = (pair.a != nullptr ? pair.a : pair.b)->name;
    const std::string& side = (pair.a != nullptr ? a_ : b_).name;
    if (!pair.is_beyond_weights) return Differ("`{}` {} is only in {}", NameOf(tensor), state, side);
    result_.beyond_weights.push_back({NameOf(tensor), state});
    result_.has_beyond_weights = side;
  }

  // A state without elements has no digest.
  void AddByDigest(const TensorPair& tensor, const StatePair& pair) {
    const std::string& of_a = digests_a_[{tensor.a->name, pair.a->name}];
    const std::string& of_b = digests_b_[{tensor.b->name, pair.b->name}];
    if (of_a == of_b) {
      ++result_.same;
      return;
    }
    const std::string_view dtype = Name(pair.a->range.dtype);
    Differ("`{}` {} differs: {} {} in {}, {} {} in {}", NameOf(tensor), pair.a->name, dtype, of_a, a_.name, dtype, of_b,
           b_.name);
  }

  void AddCast(const TensorPair& tensor, const StatePair& pair, const Difference& difference) {
    const bool is_of_b = pair.cast == DeclaredCast::kOfB;
    const WholeState& from = is_of_b ? *pair.a : *pair.b;
    const WholeState& to = is_of_b ? *pair.b : *pair.a;
    if (difference.not_cast == 0) {
      result_.cast.push_back({NameOf(tensor), from.name, to.name, from.range.dtype, to.range.dtype});
      return;
    }
    Differ("`{}` {} in {} is not {} in {}, cast to {}, in {}", NameOf(tensor), to.name, is_of_b ? b_.name : a_.name,
           Text(from), is_of_b ? a_.name : b_.name, Name(to.range.dtype),
           ElementsText(tensor, pair, difference.not_cast, difference.first_not_cast));
  }

  std::string ElementsText(const TensorPair& tensor, const StatePair& pair, std::uint64_t elements,
                           const ElementPair& first) const {
    const auto of = static_cast<std::uint64_t>(pair.a->range.end - pair.a->range.begin);
    return fmt::format("{} of {}, the first at [{}]: {} in {}, {} in {}", WithThousands(elements),
                       Counted(of, "element"), fmt::join(IndexOf(first.place, tensor.a->shape), ", "),
                       ElementText(pair.a->range.dtype, first.a.data()), a_.name,
                       ElementText(pair.b->range.dtype, first.b.data()), b_.name);
  }

  const SameSide& a_;
  const SameSide& b_;
  Digests digests_a_;
  Digests digests_b_;
  SameStates result_;
};

// All of both, under one roof.
llvm::Error LocateBoth(const PlannedRun& a, const PlannedRun& b, FilesOfAllRanks& nodes) {
  std::vector<StoredFile> stored;
  for (const PlannedRun* run : {&a, &b}) {
    for (StoredFile file : run->plan.source.files) {
      file.path = JoinPath(run->source_folder, file.path);
      stored.push_back(std::move(file));
    }
  }
  return nodes.Locate("", stored);
}

llvm::Expected<std::vector<Difference>> CompareElements(ReadableFileSystem& files, const PlannedRun& a,
                                                        const PlannedRun& b, const std::vector<StatePair>& compared,
                                                        ExecutionOptions options, FilesOfAllRanks* nodes) {
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  if (nodes != nullptr) UCP_RETURN_IF_ERROR(LocateBoth(a, b, *nodes));
  const MemoryToMove memory{.bytes = MemoryToCompare(a.plan, b.plan, std::max(options.threads, 1U)),
                            .plan_bytes = PlanBytes(a.plan) + PlanBytes(b.plan),
                            .set_aside_bytes = nodes == nullptr ? 0 : nodes->MemoryBytes()};
  UCP_RETURN_IF_ERROR(Agree(ranks, CountResidentMemory(memory, options)));
  return CompareCheckpoints(nodes == nullptr ? files : nodes->files(), {a.plan, a.source_folder},
                            {b.plan, b.source_folder}, compared, options);
}

}  // namespace

llvm::Expected<SameStates> FindSame(ReadableFileSystem& files, const SameSide& a, const SameSide& b, bool by_elements,
                                    const ExecutionOptions& options, FilesOfAllRanks* nodes) {
  const PlannedRun& run_a = a.source.run;
  const PlannedRun& run_b = b.source.run;
  const std::vector<WholeTensor>& tensors_a = a.source.tensors;
  const std::vector<WholeTensor>& tensors_b = b.source.tensors;
  const std::vector<TensorPair> tensors =
      PairStates({tensors_a, HoldsWeightsAlone(tensors_a)}, {tensors_b, HoldsWeightsAlone(tensors_b)});
  std::vector<StatePair> compared;
  for (const TensorPair& tensor : tensors) {
    for (const StatePair& pair : tensor.states) {
      if (NeedsElements(pair, by_elements)) compared.push_back(pair);
    }
  }
  std::vector<Difference> differences;
  if (!compared.empty()) {
    UCP_ASSIGN_OR_RETURN(differences, CompareElements(files, run_a, run_b, compared, options, nodes));
  }
  if (options.ranks != nullptr && options.ranks->rank() != 0) return SameStates();
  Judging judging(a, b, by_elements);
  auto next = differences.begin();
  for (const TensorPair& tensor : tensors) {
    judging.Add(tensor);
    for (const StatePair& pair : tensor.states) {
      judging.Add(tensor, pair, NeedsElements(pair, by_elements) ? &*next++ : nullptr);
    }
  }
  SameStates same = judging.Take();
  for (const SameSide* side : {&a, &b}) {
    if (side->source.training.unread_optimizer.empty()) continue;
    same.differences.push_back(side->source.training.unread_optimizer + "; so the optimizers cannot be compared");
  }
  llvm::append_range(same.differences,
                     CompareSettings(a.name, a.source.training.settings, b.name, b.source.training.settings));
  return same;
}

}  // namespace ucp
