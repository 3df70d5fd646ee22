#include "compiler/describe/other_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "compiler/bind/module_order.h"
#include "compiler/bind/moved_elements.h"
#include "compiler/bind/offsets_between.h"
#include "compiler/bind/shard_pieces.h"
#include "compiler/describe/choose_layout.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// Dims and facts are those of the model, and have the values that the source gave them.
Settings ValuesOf(const BoundSpec& bound) {
  Settings set;
  for (std::size_t i = 0; i < bound.dims.size(); ++i) {
    if (bound.dims[i]) set.emplace(bound.spec.dims[i].name, FactValue{bound.dims[i]->value});
  }
  for (std::size_t i = 0; i < bound.facts.size(); ++i) {
    if (bound.facts[i]) set.emplace(bound.spec.facts[i].name, bound.facts[i]->value);
  }
  return set;
}

llvm::Expected<std::size_t> LayoutNamed(const BoundSource& source, const std::string& name) {
  if (!source.bound || !source.bound->spec.model) {
    return Fail(ErrorCode::kUsage, "`{}={}` names a layout of a model, and {}; name a spec that has one with {}",
                kLayoutSetting, name,
                source.bound ? fmt::format("`{}` declares no model", source.spec->source->path())
                             : "there is no spec that declares one",
                OptionName(UserOption::kSpec));
  }
  const std::optional<std::size_t> found = FindLayout(source.bound->spec, name);
  if (found) return *found;
  return Fail(ErrorCode::kUsage, "the model `{}` has no layout `{}`; it has {}", source.bound->spec.model->name, name,
              NamesOfLayouts(source.bound->spec));
}

std::string TextOf(const LogicalTensor& tensor) {
  std::string text;
  switch (tensor.kind) {
    case TensorKind::kParameter:
      text = "a parameter";
      break;
    case TensorKind::kFrozen:
      text = "a frozen parameter";
      break;
    case TensorKind::kBuffer:
      text = "a buffer";
      break;
    case TensorKind::kCarried:
      text = "of the training state";
      break;
  }
  for (const LogicalTensor::State& state : tensor.states) {
    text += fmt::format(", {} in {}", state.name, Name(state.dtype));
  }
  if (tensor.weight) text += fmt::format(", computed with in {}", Name(*tensor.weight));
  return text;
}

class Seeing {
 public:
  Seeing(BoundSource& source, std::span<const LogicalTensor> tensors, const std::optional<Degrees>& degrees,
         std::vector<std::string>& remarks)
      : source_(source), degrees_(degrees), remarks_(remarks) {
    for (const LogicalTensor& tensor : tensors) tensors_.emplace(tensor.name, &tensor);
  }

  llvm::Expected<OtherLayout> Run(std::size_t layout) {
    UCP_RETURN_IF_ERROR(Bind(layout));
    UCP_RETURN_IF_ERROR(JoinStates());
    UCP_RETURN_IF_ERROR(RegroupParameters());
    RenameTraining();
    return std::move(other_);
  }

 private:
  DiagnosticSink& sink() { return source_.spec->sink; }

  llvm::Error Bind(std::size_t layout) {
    const CheckedSpec spec = WithLayout(source_.bound->spec, layout);
    other_.name = spec.layout_name;
    Inventory nothing;
    bound_ = BindSpec(spec, nothing, ValuesOf(*source_.bound), sink());
    if (!bound_) return SpecErrors(*source_.spec);
    std::optional<Layout> lowered = degrees_ ? LowerToMesh(*bound_, *degrees_, sink()) : LowerWhole(*bound_, sink());
    const std::optional<StoredParts> from = FindStoredParts(*source_.bound, sink());
    const std::optional<StoredParts> to = FindStoredParts(*bound_, sink());
    if (!lowered || !from || !to) return SpecErrors(*source_.spec);
    auto common = FindCommonElements({*source_.bound, *from}, {*bound_, *to}, sink());
    if (!common) return SpecErrors(*source_.spec);
    const LayoutOfModel source{*source_.bound, *from};
    const LayoutOfModel target{*bound_, *to};
    remarks_.push_back(TextOfMoves(source, target, *common));
    UCP_ASSIGN_OR_RETURN(other_.offsets, OffsetsBetween(source, target, *common));
    if (!other_.offsets.empty()) remarks_.push_back(TextOfOffsets(source, target, *common));
    other_.common = std::move(*common);
    other_.layout = std::move(*lowered);
    std::erase_if(other_.layout.tensors,
                  [&](const TensorLayout& tensor) { return !other_.common.contains(tensor.name); });
    if (!degrees_) {
      UCP_ASSIGN_OR_RETURN(other_.layout, AtomicLayout(other_.layout));
    }
    return VerifyLayout(other_.layout);
  }

  llvm::Error JoinStates() {
    for (const TensorLayout& layout : other_.layout.tensors) {
      const std::vector<CommonElements>& common = other_.common.at(layout.name);
      const LogicalTensor* first = tensors_.at(common.front().source);
      for (const CommonElements& elements : common) {
        const LogicalTensor* next = tensors_.at(elements.source);
        if (next == first) continue;
        if (next->kind == first->kind && next->states == first->states && next->weight == first->weight) continue;
        return Fail(ErrorCode::kUnsupported,
                    "`{}` of the layout `{}` is put together of `{}`, which is {}, and of `{}`, which is {}; they must "
                    "be alike",
                    layout.name, other_.name, first->name, TextOf(*first), next->name, TextOf(*next));
      }
      LogicalTensor tensor = *first;
      tensor.name = layout.name;
      UCP_ASSIGN_OR_RETURN(tensor.shape, LogicalShape(layout));
      tensor.dims = layout.dims;
      other_.tensors.push_back(std::move(tensor));
    }
    return llvm::Error::success();
  }

  // By the source's names: what each becomes a part of, in the order of the layout.
  std::unordered_map<std::string, std::vector<std::string>> TargetsOfSources() const {
    std::vector<const BoundTensor*> ordered;
    for (const BoundTensor& tensor : bound_->tensors) ordered.push_back(&tensor);
    std::ranges::sort(ordered, {}, &BoundTensor::place);
    std::unordered_map<std::string, std::vector<std::string>> targets;
    for (const BoundTensor* tensor : ordered) {
      const auto common = other_.common.find(tensor->name);
      if (common == other_.common.end()) continue;
      for (const CommonElements& elements : common->second) {
        std::vector<std::string>& of_source = targets[elements.source];
        if (of_source.empty() || of_source.back() != tensor->name) of_source.push_back(tensor->name);
      }
    }
    return targets;
  }

  // A tensor takes the place of the first of those that it is put together of.
  llvm::Error RegroupParameters() {
    const auto targets = TargetsOfSources();
    std::map<std::string, std::pair<std::size_t, std::string>> group_of;  // By target: and which source said so.
    std::vector<OptimizerGroup>& groups = source_.checkpoint.training.groups;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<std::string> parameters;
      for (const std::string& name : groups[g].parameters) {
        const auto of_source = targets.find(name);
        if (of_source == targets.end()) continue;
        for (const std::string& target : of_source->second) {
          const auto [known, is_new] = group_of.try_emplace(target, g, name);
          if (is_new) parameters.push_back(target);
          if (known->second.first == g) continue;
          return Fail(ErrorCode::kUnsupported,
                      "`{}` of the layout `{}` is put together of `{}` of parameter group {} and of `{}` of group {}, "
                      "which the optimizer trains with settings of their own",
                      target, other_.name, known->second.second, known->second.first, name, g);
        }
      }
      PutInOrder(parameters);
      groups[g].parameters = std::move(parameters);
    }
    return llvm::Error::success();
  }

  // The ranks of a job hold the parameters in the order of their module, which is that of the layout's lines.
  void PutInOrder(std::vector<std::string>& parameters) const {
    if (other_.name == source_.bound->spec.layout_name) return;
    std::unordered_map<std::string_view, std::size_t> place_of;
    for (const std::size_t t : ModuleOrder(*bound_)) place_of.emplace(bound_->tensors[t].name, place_of.size());
    std::ranges::sort(parameters, {}, [&](const std::string& name) { return place_of.at(name); });
  }

  // All that is kept by the names of tensors, or of the module that has them.
  void RenameTraining() {
    TrainingState& training = source_.checkpoint.training;
    training.aliases.clear();
    for (const TensorLayout& tensor : other_.layout.tensors) {
      for (const std::string& alias : tensor.aliases) training.aliases.emplace(alias, tensor.name);
    }
    std::size_t extras = 0;
    for (RankState& rank : training.ranks) {
      extras += rank.module_extras.size();
      rank.module_extras.clear();
    }
    if (extras != 0) {
      remarks_.push_back(
          fmt::format("{} entries of modules that are not tensors are left out: the layout `{}` has other modules",
                      extras, other_.name));
    }
    if (training.format_state != nullptr && training.format_state->knows_layers()) {
      remarks_.push_back(
          fmt::format("the source's modules are those of a pipeline, and the layout `{}` has other modules: the target "
                      "is that of a model without a pipeline",
                      other_.name));
    }
    training.format_state.reset();
  }

  BoundSource& source_;
  const std::optional<Degrees>& degrees_;
  std::vector<std::string>& remarks_;
  std::unordered_map<std::string_view, const LogicalTensor*> tensors_;
  std::optional<BoundSpec> bound_;
  OtherLayout other_;
};

}  // namespace

llvm::Expected<OtherLayout> SeeInLayout(BoundSource& source, std::span<const LogicalTensor> tensors,
                                        const std::string& name, const std::optional<Degrees>& degrees,
                                        std::vector<std::string>& remarks) {
  UCP_ASSIGN_OR_RETURN(const std::size_t layout, LayoutNamed(source, name));
  if (!source.checkpoint.training.loose_states.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "{}: it is not one number for each element, and has no meaning in another layout; {} leaves it out",
                source.checkpoint.training.loose_states.front().sentence,
                OptionName(UserOption::kDropStates, source.checkpoint.training.loose_states.front().name));
  }
  remarks.push_back(fmt::format("the source has the layout `{}` of the model `{}`, and the target the layout `{}`",
                                source.bound->spec.layout_name, source.bound->spec.model->name, name));
  return Seeing(source, tensors, degrees, remarks).Run(layout);
}

llvm::Error FillPieces(const OtherLayout& other, TargetFiles& target) {
  return FillPieces(other.common, other.layout, target);
}

}  // namespace ucp
