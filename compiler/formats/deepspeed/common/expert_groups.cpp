#include "compiler/formats/deepspeed/common/expert_groups.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using pytorch::Entry;

// Elements of a group on one rank; the function's default.
constexpr std::int64_t kMostElements = 178'956'971;
constexpr const char* kOtherSplit =
    "was not split as DeepSpeed splits groups of more than 178956971 elements on a rank";

using Names = std::vector<std::string>;

// Items [begin, end) of a list of names are all parameters of one layer's experts, each with the same ones in the same
// order, and the experts ascend.
struct LayerRun {
  std::string layer;
  std::size_t begin = 0;
  std::size_t end = 0;
};

bool IsInExpertOrder(const Names& names, const LayerRun& run) {
  std::vector<std::string> rests;  // Of the first expert.
  std::optional<std::int64_t> first;
  for (std::size_t i = run.begin; i < run.end; ++i) {
    const auto parsed = ParseExpertName(names[i]);
    if (!first) first = parsed->expert;
    if (parsed->expert == *first && i - run.begin == rests.size()) rests.push_back(parsed->rest);
    const std::size_t place = i - run.begin;
    const auto expert = *first + static_cast<std::int64_t>(place / rests.size());
    if (parsed->expert != expert || parsed->rest != rests[place % rests.size()]) return false;
  }
  return (run.end - run.begin) % rests.size() == 0;
}

// Nothing if the order is another one.
std::optional<std::vector<LayerRun>> RunsOfLayers(const Names& names) {
  std::vector<LayerRun> runs;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto parsed = ParseExpertName(names[i]);
    if (!parsed) return std::nullopt;
    if (runs.empty() || runs.back().layer != parsed->layer) {
      if (!seen.insert(parsed->layer).second) return std::nullopt;
      runs.push_back({parsed->layer, i, i});
    }
    ++runs.back().end;
  }
  const bool in_order = std::all_of(runs.begin(), runs.end(), [&](auto& run) { return IsInExpertOrder(names, run); });
  return in_order ? std::optional(runs) : std::nullopt;
}

bool IsOfExperts(const OptimizerGroup& group) {
  pytorch::ValuePtr moe = pytorch::Find(*group.hyper_parameters, "moe");
  return moe && pytorch::AsBool(*moe).value_or(false);
}

// From the name `ep_size_2`; 0 for another one.
std::int64_t DegreeOf(const OptimizerGroup& group) {
  constexpr std::string_view kBefore = "ep_size_";
  pytorch::ValuePtr value = pytorch::Find(*group.hyper_parameters, "name");
  const std::string_view name = value ? pytorch::AsText(*value).value_or("") : "";
  if (!name.starts_with(kBefore)) return 0;
  return ParseCount(name.substr(kBefore.size()), 1, kMostRanks).value_or(0);
}

pytorch::ValuePtr WithName(const pytorch::ValuePtr& hyper_parameters, const std::string& name) {
  std::vector<Entry> entries = *pytorch::Entries(*hyper_parameters);
  for (Entry& entry : entries) {
    if (pytorch::AsText(*entry.key) == "name") entry.value = pytorch::MakeText(name);
  }
  return pytorch::MakeDict(std::move(entries));
}

class Regrouper {
 public:
  Regrouper(const TrainingState& training, std::span<const LogicalTensor> tensors, std::int64_t ep,
            TensorRanks tensor_ranks, const ExpertStages& stages)
      : training_(training), counts_(ExpertCounts(tensors)), ep_(ep), tensor_ranks_(tensor_ranks), stages_(stages) {
    for (const LogicalTensor& tensor : tensors) {
      std::int64_t elements = 1;
      for (std::int64_t size : tensor.shape) elements *= size;
      elements_.emplace(tensor.name, elements);
    }
  }

  llvm::Expected<std::vector<OptimizerGroup>> Run() {
    const std::vector<OptimizerGroup>& groups = training_.groups;
    for (std::size_t begin = 0; begin < groups.size();) {
      std::size_t end = begin + 1;
      if (IsOfExperts(groups[begin])) {
        while (end < groups.size() && IsOfExperts(groups[end]) && AreAlike(groups[begin], groups[end])) ++end;
        UCP_RETURN_IF_ERROR(Adapt(
            {groups.begin() + static_cast<std::ptrdiff_t>(begin), groups.begin() + static_cast<std::ptrdiff_t>(end)}));
      } else {
        UCP_RETURN_IF_ERROR(CheckNoneFused(groups[begin]));
        regrouped_.push_back(groups[begin]);
      }
      begin = end;
    }
    return std::move(regrouped_);
  }

 private:
  // But for the name: one group of the script can have become both.
  static bool AreAlike(const OptimizerGroup& a, const OptimizerGroup& b) {
    auto text = [](const OptimizerGroup& group) { return pytorch::Print(*WithName(group.hyper_parameters, "")); };
    return text(a) == text(b);
  }

  llvm::Error Adapt(std::span<const OptimizerGroup> parts) {
    const bool is_spread_as_before =
        std::all_of(parts.begin(), parts.end(), [&](auto& part) { return DegreeOf(part) == ep_; });
    if (!is_spread_as_before || tensor_ranks_.source != tensor_ranks_.target) {
      UCP_RETURN_IF_ERROR(CheckSmallEnough(parts));
    }
    if (is_spread_as_before && (stages_.source == stages_.target || ElementsOf(parts) / ep_ <= kMostElements)) {
      regrouped_.insert(regrouped_.end(), parts.begin(), parts.end());
      return llvm::Error::success();
    }
    if (is_spread_as_before && !are_fused()) return RefuseOtherStages(parts);
    Names joined;
    for (std::size_t begin = 0; begin < parts.size();) {
      std::size_t end = begin + 1;
      while (end < parts.size() && DegreeOf(parts[end]) == DegreeOf(parts[begin])) ++end;
      UCP_ASSIGN_OR_RETURN(Names names, Join(parts.subspan(begin, end - begin)));
      joined.insert(joined.end(), names.begin(), names.end());
      begin = end;
    }
    if (!are_fused()) UCP_RETURN_IF_ERROR(SortLayers(joined));
    const std::size_t before = regrouped_.size();
    if (are_fused()) return SplitFused(parts.front(), joined);
    AddSplit(parts.front(), joined);
    // Each stage splits what it has.
    if (deepspeed::StateOf(training_).pipeline && (parts.size() > 1 || regrouped_.size() > before + 1)) {
      return RefuseOtherStages(parts);
    }
    return llvm::Error::success();
  }

  // The part of a tensor on tensor-parallel ranks is not known here; a group that is small enough in whole is not
  // split.
  llvm::Error CheckSmallEnough(std::span<const OptimizerGroup> parts) const {
    if (tensor_ranks_.source == 1 && tensor_ranks_.target == 1) return llvm::Error::success();
    std::int64_t degree = ep_;
    for (const OptimizerGroup& part : parts) degree = std::min(degree, std::max<std::int64_t>(1, DegreeOf(part)));
    if (ElementsOf(parts) / degree <= kMostElements) return llvm::Error::success();
    return Refuse(parts.front().parameters,
                  "has more elements than DeepSpeed leaves in one group on a rank, unless tensor-parallel ranks share "
                  "them");
  }

  std::int64_t ElementsOf(const std::string& name) const {
    auto found = elements_.find(name);
    return found == elements_.end() ? 0 : found->second;
  }

  std::int64_t ElementsOf(std::span<const OptimizerGroup> parts) const {
    std::int64_t elements = 0;
    for (const OptimizerGroup& part : parts) {
      for (const std::string& name : part.parameters) elements += ElementsOf(name);
    }
    return elements;
  }

  static llvm::Error RefuseOtherStages(std::span<const OptimizerGroup> parts) {
    return Refuse(parts.front().parameters, "has other numbers of elements on each stage of the pipeline");
  }

  // One group of the script at one degree, in whole.
  llvm::Expected<Names> Join(std::span<const OptimizerGroup> parts) const {
    const std::int64_t degree = DegreeOf(parts.front());
    if (degree == 0) return Refuse(parts.front().parameters, "does not name the number of its ranks (`ep_size_2`)");
    if (are_fused()) return JoinFused(parts, degree);
    std::vector<Names> ranks(static_cast<std::size_t>(degree));
    std::vector<std::size_t> ends;  // Of each part on a rank.
    for (const OptimizerGroup& part : parts) {
      for (const std::string& name : part.parameters) {
        const auto rank = RankOf(name, degree);
        if (!rank) return Refuse(part.parameters, fmt::format("has `{}`, which does not belong to an expert", name));
        ranks[static_cast<std::size_t>(*rank)].push_back(name);
      }
      ends.push_back(ranks.front().size());
    }
    if (EndsOfSplit(ranks.front()) != ends) return Refuse(parts.front().parameters, kOtherSplit);
    return JoinExpertRanks(ranks);
  }

  // Of AutoEP's tensors every rank has a part, so that its list is the group's own.
  bool are_fused() const { return !deepspeed::StateOf(training_).fused_experts.empty(); }

  llvm::Error CheckNoneFused(const OptimizerGroup& group) const {
    const bool has_one = std::any_of(group.parameters.begin(), group.parameters.end(), [&](const std::string& name) {
      return deepspeed::StateOf(training_).fused_experts.contains(name);
    });
    if (!has_one) return llvm::Error::success();
    return Refuse(group.parameters, "is not marked as one of experts (`moe`)");
  }

  // Stage after stage, and on each of them part after part.
  llvm::Expected<Names> JoinFused(std::span<const OptimizerGroup> parts, std::int64_t degree) const {
    std::map<std::int64_t, Names> of_stage;
    std::map<std::int64_t, std::vector<std::size_t>> ends_of_stage;
    for (const OptimizerGroup& part : parts) {
      std::set<std::int64_t> having;
      for (const std::string& name : part.parameters) {
        if (!deepspeed::StateOf(training_).fused_experts.contains(name)) {
          return Refuse(part.parameters, fmt::format("has `{}`, which does not belong to an expert", name));
        }
        const std::int64_t stage = StageOf(stages_.source, name);
        of_stage[stage].push_back(name);
        having.insert(stage);
      }
      for (const std::int64_t stage : having) ends_of_stage[stage].push_back(of_stage[stage].size());
    }
    Names joined;
    for (const auto& [stage, names] : of_stage) {
      if (EndsOfSplit(names, degree) != ends_of_stage[stage]) return Refuse(names, kOtherSplit);
      joined.insert(joined.end(), names.begin(), names.end());
    }
    return joined;
  }

  // The n-th parts of all stages are one group.
  llvm::Error SplitFused(const OptimizerGroup& like, const Names& names) {
    std::map<std::int64_t, Names> of_stage;
    for (const std::string& name : names) {
      if (ElementsOf(name) / ep_ > kMostElements) {
        return Refuse(names, fmt::format("has `{}`, which alone is more on a rank than DeepSpeed leaves in one", name));
      }
      of_stage[StageOf(stages_.target, name)].push_back(name);
    }
    std::vector<Names> groups;
    for (const auto& [stage, held] : of_stage) {
      const std::vector<std::size_t> ends = EndsOfSplit(held, ep_);
      groups.resize(std::max(groups.size(), ends.size()));
      std::size_t place = 0;
      for (std::size_t n = 0; n < ends.size(); ++n) {
        for (; place < ends[n]; ++place) groups[n].push_back(held[place]);
      }
    }
    for (Names& group : groups) {
      const std::string name = fmt::format("ep_size_{}", ep_);
      regrouped_.push_back({WithName(like.hyper_parameters, name), like.step, std::move(group)});
    }
    return llvm::Error::success();
  }

  static std::int64_t StageOf(const std::map<std::string, std::int64_t>& stages, const std::string& name) {
    const auto found = stages.find(name);
    return found == stages.end() ? 0 : found->second;
  }

  static llvm::Error Refuse(const Names& names, const std::string& why) {
    return Fail(ErrorCode::kUnsupported,
                "the optimizer's group of experts that begins with `{}` {}: what its groups are with another number of "
                "ranks that share the experts is not known",
                names.empty() ? std::string() : names.front(), why);
  }

  // Layers of different degrees were different groups; of one degree they are one, in the model's order.
  llvm::Error SortLayers(Names& names) const {
    const auto runs = RunsOfLayers(names);
    if (!runs) return Refuse(names, "is not in the order of layers, experts and their parameters");
    auto place = [&](const LayerRun& run) {
      return std::find_if(deepspeed::StateOf(training_).expert_layers.begin(),
                          deepspeed::StateOf(training_).expert_layers.end(),
                          [&](const ExpertLayer& layer) { return layer.prefix == run.layer; }) -
             deepspeed::StateOf(training_).expert_layers.begin();
    };
    std::vector<LayerRun> sorted = *runs;
    std::stable_sort(sorted.begin(), sorted.end(), [&](auto& a, auto& b) { return place(a) < place(b); });
    Names ordered;
    for (const LayerRun& run : sorted) {
      for (std::size_t i = run.begin; i < run.end; ++i) ordered.push_back(names[i]);
    }
    names = std::move(ordered);
    return llvm::Error::success();
  }

  void AddSplit(const OptimizerGroup& like, const Names& names) {
    std::vector<Names> ranks(static_cast<std::size_t>(ep_));
    for (const std::string& name : names) ranks[static_cast<std::size_t>(*RankOf(name, ep_))].push_back(name);
    std::size_t begin = 0;
    for (std::size_t end : EndsOfSplit(ranks.front())) {
      std::vector<Names> parts;
      for (const Names& rank : ranks) {
        parts.emplace_back(rank.begin() + static_cast<std::ptrdiff_t>(begin),
                           rank.begin() + static_cast<std::ptrdiff_t>(end));
      }
      regrouped_.push_back(
          {WithName(like.hyper_parameters, fmt::format("ep_size_{}", ep_)), like.step, JoinExpertRanks(parts)});
      begin = end;
    }
  }

  // Where the parts of one rank's list end. `ranks` of them share each tensor out.
  std::vector<std::size_t> EndsOfSplit(const Names& names, std::int64_t ranks = 1) const {
    std::vector<std::size_t> ends;
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::int64_t more = ElementsOf(names[i]) / ranks;
      if (i > 0 && elements + more > kMostElements) {
        ends.push_back(i);
        elements = 0;
      }
      elements += more;
    }
    ends.push_back(names.size());
    return ends;
  }

  std::optional<std::int64_t> RankOf(const std::string& name, std::int64_t degree) const {
    const auto parsed = ParseExpertName(name);
    const auto count = parsed ? counts_.find(parsed->layer) : counts_.end();
    if (count == counts_.end() || count->second % degree != 0) return std::nullopt;
    return parsed->expert / (count->second / degree);
  }

  const TrainingState& training_;
  const std::map<std::string, std::int64_t> counts_;
  const std::int64_t ep_;
  const TensorRanks tensor_ranks_;
  const ExpertStages& stages_;
  std::map<std::string, std::int64_t> elements_;
  std::vector<OptimizerGroup> regrouped_;
};

}  // namespace

std::vector<std::string> JoinExpertRanks(const std::vector<std::vector<std::string>>& ranks) {
  Names joined;
  const auto runs = RunsOfLayers(ranks.front());
  if (ranks.size() == 1 || !runs) {
    for (const Names& rank : ranks) joined.insert(joined.end(), rank.begin(), rank.end());
    return joined;
  }
  for (const LayerRun& run : *runs) {
    for (const Names& rank : ranks) {
      joined.insert(joined.end(), rank.begin() + static_cast<std::ptrdiff_t>(run.begin),
                    rank.begin() + static_cast<std::ptrdiff_t>(run.end));
    }
  }
  return joined;
}

std::map<std::string, std::int64_t> ExpertCounts(std::span<const LogicalTensor> tensors) {
  std::map<std::string, std::int64_t> counts;
  for (const LogicalTensor& tensor : tensors) {
    const auto parsed = ParseExpertName(tensor.name);
    if (!parsed) continue;
    std::int64_t& count = counts[parsed->layer];
    count = std::max(count, parsed->expert + 1);
  }
  return counts;
}

llvm::Expected<std::vector<OptimizerGroup>> GroupsForExpertRanks(const TrainingState& training,
                                                                 std::span<const LogicalTensor> tensors,
                                                                 std::int64_t ep, TensorRanks tensor_ranks,
                                                                 const ExpertStages& stages) {
  return Regrouper(training, tensors, ep, tensor_ranks, stages).Run();
}

}  // namespace ucp
