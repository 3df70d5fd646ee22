#include "runtime/job_tensors/match_job_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/plan/plan.h"
#include "compiler/support/error.h"
#include "compiler/support/spelling.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

const LogicalTensor* FindTensor(std::span<const LogicalTensor> tensors, const std::string& name) {
  auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                [](const LogicalTensor& tensor, const std::string& key) { return tensor.name < key; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

class Matcher {
 public:
  Matcher(const Layout& layout, std::span<const LogicalTensor> tensors, std::span<JobTensorsOfRank> ranks)
      : layout_(layout), tensors_(tensors), ranks_(ranks) {}

  llvm::Error Run() {
    std::set<std::string> masters;
    for (const JobTensorsOfRank& held_by_rank : ranks_) {
      for (const JobTensor& held : held_by_rank) {
        if (held.state == kMasterState) masters.insert(held.tensor);
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (JobTensor& held : ranks_[rank]) UCP_RETURN_IF_ERROR(Match(rank, masters.contains(held.tensor), held));
    }
    if (missing_.empty()) return llvm::Error::success();
    std::vector<std::string> names;
    for (const LogicalTensor& tensor : tensors_) names.push_back(tensor.name);
    std::optional<std::string> nearest = NearestWord(missing_.begin()->first, names);
    return Fail(ErrorCode::kUsage,
                "the checkpoint has no tensor `{}`, which rank {} wants to fill{}{}; what is to keep its value has to "
                "be named (in Python, keep=)",
                missing_.begin()->first, missing_.begin()->second,
                missing_.size() == 1 ? "" : fmt::format(", nor {} more of those to be filled", missing_.size() - 1),
                nearest ? fmt::format("; did you mean `{}`?", *nearest) : "");
  }

 private:
  const LogicalTensor* Find(const std::string& name) const {
    const TensorLayout* layout = layout_.Find(name);
    return layout == nullptr ? nullptr : FindTensor(tensors_, layout->name);
  }

  llvm::Error Match(std::size_t rank, bool master_is_held, JobTensor& held) {
    const LogicalTensor* tensor = Find(held.tensor);
    for (const std::string& name : held.second_names) {
      if (tensor == nullptr) tensor = Find(name);
    }
    if (tensor == nullptr) {
      missing_.try_emplace(held.tensor, rank);
      return llvm::Error::success();
    }
    const LogicalTensor::State* state = FindState(*tensor, held.state);
    if (held.state == kWeightState && state == nullptr) state = FindState(*tensor, kMasterState);
    if (state == nullptr) {
      std::vector<std::string> names;
      for (const LogicalTensor::State& has : tensor->states) names.push_back(has.name);
      return Fail(ErrorCode::kUsage, "the checkpoint has no `{}` of tensor `{}`, which rank {} wants to fill, but {}",
                  held.state, held.tensor, rank, fmt::join(names, ", "));
    }
    if (tensor->shape != held.shape) {
      return Fail(ErrorCode::kUsage, "{}tensor `{}` is [{}] in the checkpoint, and [{}] on rank {}",
                  held.state == kWeightState ? "" : fmt::format("`{}` of ", held.state), held.tensor,
                  fmt::join(tensor->shape, ", "), fmt::join(held.shape, ", "), rank);
    }
    if (state->dtype != held.dtype && !(IsArithmetic(state->dtype) && IsArithmetic(held.dtype))) {
      return Fail(ErrorCode::kUsage,
                  "`{}` of tensor `{}` is {} in the checkpoint and {} on rank {}; only floating-point numbers of 16 "
                  "bits and more are cast",
                  held.state, held.tensor, Name(state->dtype), Name(held.dtype), rank);
    }
    held.tensor = tensor->name;
    if (!master_is_held) held.state = state->name;
    return llvm::Error::success();
  }

  const Layout& layout_;
  std::span<const LogicalTensor> tensors_;
  std::span<JobTensorsOfRank> ranks_;
  std::map<std::string, std::size_t> missing_;  // The rank that wants each.
};

}  // namespace

llvm::Error MatchJobTensors(const Layout& layout, std::span<const LogicalTensor> tensors,
                            std::span<JobTensorsOfRank> ranks) {
  return Matcher(layout, tensors, ranks).Run();
}

StatesOfTensors HeldStates(std::span<const JobTensorsOfRank> ranks) {
  StatesOfTensors states;
  for (const JobTensorsOfRank& held_by_rank : ranks) {
    for (const JobTensor& held : held_by_rank) states[held.tensor].insert(held.state);
  }
  return states;
}

std::vector<NotLoaded> FindNotLoaded(std::span<const LogicalTensor> tensors, std::span<const JobTensorsOfRank> ranks) {
  const auto held_states = HeldStates(ranks);
  std::vector<NotLoaded> not_loaded;
  for (const LogicalTensor& tensor : tensors) {
    NotLoaded entry{tensor.name, {}};
    auto held = held_states.find(tensor.name);
    for (const LogicalTensor::State& state : tensor.states) {
      if (held == held_states.end() || !held->second.contains(state.name)) entry.states.push_back(state.name);
    }
    if (!entry.states.empty()) not_loaded.push_back(std::move(entry));
  }
  return not_loaded;
}

std::set<std::string> KeptTensors(const Layout& layout, std::span<const std::string> names) {
  std::set<std::string> kept;
  for (const std::string& name : names) {
    if (const TensorLayout* tensor = layout.Find(name)) kept.insert(tensor->name);
  }
  return kept;
}

std::vector<std::string> CastRemarks(std::span<const LogicalTensor> tensors, std::span<const JobTensorsOfRank> ranks) {
  std::map<std::pair<DType, DType>, std::set<std::pair<std::string_view, std::string_view>>> casts;
  for (const JobTensorsOfRank& held_by_rank : ranks) {
    for (const JobTensor& held : held_by_rank) {
      const LogicalTensor::State* state = FindState(*FindTensor(tensors, held.tensor), held.state);
      // A weight beside its master is made from that.
      if (state == nullptr) state = FindState(*FindTensor(tensors, held.tensor), kMasterState);
      if (state->dtype != held.dtype) casts[{state->dtype, held.dtype}].insert({held.tensor, held.state});
    }
  }
  std::vector<std::string> remarks;
  for (const auto& [dtypes, states] : casts) {
    remarks.push_back(fmt::format("{} {} cast from {} to {}", Counted(states.size(), "state"),
                                  states.size() == 1 ? "is" : "are", Name(dtypes.first), Name(dtypes.second)));
  }
  return remarks;
}

llvm::Expected<StatesOfTensors> SourceStates(const StatesOfTensors& held, const OtherLayout& other) {
  static const std::set<std::string> kNothing;
  std::map<std::string, std::pair<std::string, const std::set<std::string>*>> first_of;  // Of the other layout.
  StatesOfTensors wanted;
  for (const auto& [tensor, elements] : other.common) {
    const auto found = held.find(tensor);
    const std::set<std::string>& states = found == held.end() ? kNothing : found->second;
    for (const CommonElements& some : elements) {
      const auto [first, is_new] = first_of.try_emplace(some.source, tensor, &states);
      if (!is_new && *first->second.second != states) {
        return Fail(ErrorCode::kUnsupported,
                    "`{}` of the checkpoint goes into `{}` and into `{}`, and ranks fill [{}] of the one and [{}] of "
                    "the other; fill the same of both, or load without a layout",
                    some.source, first->second.first, tensor, fmt::join(*first->second.second, ", "),
                    fmt::join(states, ", "));
      }
      if (!states.empty()) wanted[some.source] = states;
    }
  }
  return wanted;
}

BoundSource KeepStates(StatesOfTensors wanted, BoundSource source) {
  for (auto& [tensor, states] : wanted) {
    // Either needs the other: to be made from, or to be compared with.
    if (states.contains(kMasterState) || states.contains(kWeightState)) states.insert({kMasterState, kWeightState});
  }
  Storage& storage = source.checkpoint.inventory.storage;
  std::map<std::pair<BufferSetId, std::string>, std::optional<BufferSetId>> kept;  // Many shards share few sets.
  std::erase_if(storage.shards, [&](Shard& shard) {
    const TensorLayout* layout = source.layout.Find(shard.tensor);
    auto states = layout == nullptr ? wanted.end() : wanted.find(layout->name);
    if (states == wanted.end()) return true;
    std::string key = fmt::format("{}", fmt::join(states->second, "\n"));
    auto [entry, is_new] = kept.try_emplace({shard.states, key});
    if (is_new) {
      BufferSet set = storage.buffer_set(shard.states);
      std::erase_if(set, [&](const StateBuffer& state) { return !states->second.contains(state.state); });
      if (!set.empty()) entry->second = storage.Add(std::move(set));
    }
    if (entry->second) shard.states = *entry->second;
    return !entry->second;
  });
  for (Layout* layout : {&source.layout, &source.stored_layout}) {
    std::erase_if(layout->tensors, [&](const TensorLayout& tensor) { return !wanted.contains(tensor.name); });
    layout->dropped.clear();
  }
  return source;
}

}  // namespace ucp
