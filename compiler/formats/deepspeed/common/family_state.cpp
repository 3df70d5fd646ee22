#include "compiler/formats/deepspeed/common/family_state.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/formats/deepspeed/common/place_stages.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/source_archives.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeText;
using pytorch::ValuePtr;

constexpr std::string_view kFamily = "deepspeed";
constexpr const char* kFusedExperts = "fused_experts";      // Only if there are some.
constexpr const char* kExcludesFrozen = "excludes_frozen";  // There only if they were.

llvm::Expected<std::set<std::string>> ReadFusedExperts(const std::vector<Entry>& entries,
                                                       const SourceArchive& archive) {
  std::set<std::string> names;
  const ValuePtr value = FindEntry(entries, kFusedExperts);
  if (!value) return names;
  auto refuse = [&] {
    return Fail(ErrorCode::kBadData, "`{}` has no `{}` of the kind that this project writes there",
                archive.readable->path(), kFusedExperts);
  };
  const std::vector<ValuePtr>* items = pytorch::Items(*value);
  if (items == nullptr) return refuse();
  for (const ValuePtr& item : *items) {
    const auto name = pytorch::AsText(*item);
    if (!name) return refuse();
    names.emplace(*name);
  }
  return names;
}

}  // namespace

std::string_view FamilyState::family() const { return kFamily; }

std::vector<Entry> FamilyState::Entries() const {
  std::vector<Entry> entries;
  if (!fused_experts.empty()) {
    std::vector<ValuePtr> names;
    for (const std::string& name : fused_experts) names.push_back(MakeText(name));
    entries.push_back({MakeText(kFusedExperts), pytorch::MakeList(std::move(names))});
  }
  if (excludes_frozen) entries.push_back({MakeText(kExcludesFrozen), pytorch::MakeBool(true)});
  if (pipeline) entries.push_back(PipelineEntry(*pipeline));
  if (!expert_layers.empty()) entries.push_back(ExpertLayersEntry(expert_layers));
  return entries;
}

// Prefixes of layers are not names of tensors, and stay.
std::shared_ptr<const FormatState> FamilyState::Renamed(const std::map<std::string, std::string>& names) const {
  auto renamed = std::make_shared<FamilyState>(*this);
  renamed->fused_experts.clear();
  for (const std::string& name : fused_experts) {
    const auto found = names.find(name);
    renamed->fused_experts.insert(found == names.end() ? name : found->second);
  }
  return renamed;
}

std::string FamilyState::WhyNotPublished() const {
  if (fused_experts.empty()) return "";
  return fmt::format(
      "tensor `{}` has the name that DeepSpeed's AutoEP gives it in memory, where a hub folder has each expert's "
      "matrices under other names",
      *fused_experts.begin());
}

const std::set<std::int64_t>* FamilyState::RememberedStagesOf(std::string_view tensor) const {
  return pipeline ? RememberedStages(*pipeline, tensor) : nullptr;
}

// An engine with AutoEP gives every rank of `ep` equally many neighbours.
void FamilyState::SpreadExperts(Layout& layout) const {
  if (layout.mesh.Size("ep") == 1) return;
  for (TensorLayout& tensor : layout.tensors) {
    if (!fused_experts.contains(tensor.name) || tensor.dims.empty()) continue;
    tensor.dims.front() = ShapeExpr::Cut(tensor.dims.front(), {"ep"});
  }
}

llvm::Error FamilyState::PlaceStages(const StageRequest& request, Layout& layout,
                                     std::vector<std::string>& remarks) const {
  return PlacePipeline(*this, request, layout, remarks);
}

const FamilyState& StateOf(const TrainingState& training) {
  static const FamilyState kEmpty;
  const FormatState* state = training.format_state.get();
  return state != nullptr && state->family() == kFamily ? static_cast<const FamilyState&>(*state) : kEmpty;
}

FamilyState& EditState(TrainingState& training) {
  auto state = std::make_shared<FamilyState>(StateOf(training));
  FamilyState& edited = *state;
  training.format_state = std::move(state);
  return edited;
}

llvm::Expected<std::shared_ptr<const FormatState>> ReadState(const std::vector<Entry>& entries,
                                                             const SourceArchive& archive) {
  auto state = std::make_shared<FamilyState>();
  UCP_ASSIGN_OR_RETURN(state->fused_experts, ReadFusedExperts(entries, archive));
  const ValuePtr excludes_frozen = FindEntry(entries, kExcludesFrozen);
  state->excludes_frozen = excludes_frozen && pytorch::AsBool(*excludes_frozen).value_or(false);
  std::vector<Entry> rest = entries;
  UCP_ASSIGN_OR_RETURN(state->pipeline, TakePipelineEntry(rest, archive.path));
  UCP_ASSIGN_OR_RETURN(state->expert_layers, TakeExpertLayersEntry(rest, archive.path));
  return state->Entries().empty() ? nullptr : std::shared_ptr<const FormatState>(std::move(state));
}

ValuePtr VersionOf(const TrainingState& training) {
  ValuePtr version = FindEntry(training.engine, "ds_version");
  if (!version) version = FindEntry(training.optimizer, "ds_version");
  return version && pytorch::AsText(*version) ? version : MakeText("0.19.8");
}

}  // namespace ucp::deepspeed
