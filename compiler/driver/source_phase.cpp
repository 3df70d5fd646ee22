#include "compiler/driver/source_phase.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "compiler/check/fact_value.h"
#include "compiler/driver/catalogue.h"
#include "compiler/driver/config_file.h"
#include "compiler/driver/drop_states.h"
#include "compiler/driver/pick_spec.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t number = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

// A matrix that several tensor-parallel ranks hold, to show what the files do not say; any tensor if there is none.
const Shard* CutExample(const Inventory& inventory) {
  const Shard* example = nullptr;
  for (const Shard& shard : inventory.storage.shards) {
    if (shard.coordinate.At("tp") == 0) continue;
    if (shard.shape.size() == 2) return &shard;
    if (example == nullptr) example = &shard;
  }
  return example;
}

// What is missing, and what the catalogue has to say to it.
llvm::Error NeedsSpec(const Inventory& inventory, llvm::Error catalogue) {
  std::int64_t tp = inventory.mesh.Size("tp");
  std::string question;
  if (const Shard* shard = CutExample(inventory)) {
    question = fmt::format("; tensor `{}` is [{}] on each of them, which may be its rows, its columns, or all of it",
                           shard->tensor, fmt::join(shard->shape, ", "));
  }
  return Fail(ErrorCode::kUsage,
              "the checkpoint is cut over {} tensor-parallel ranks, and its files do not say how{}; say it with --spec "
              "FILE (docs/language.md), since the catalogue does not decide: {}",
              tp, question, llvm::toString(std::move(catalogue)));
}

// "NAME=last", "NAME=first", "NAME=2": the stage whose copy is not used.
llvm::Error ApplyUnused(const std::string& text, Layout& layout) {
  std::size_t equals = text.rfind('=');
  std::string name = text.substr(0, equals);
  std::string stage = equals == std::string::npos ? "" : text.substr(equals + 1);
  std::int64_t stages = layout.mesh.Size("pp");
  std::optional<std::int64_t> number = stage == "last" ? stages - 1 : stage == "first" ? 0 : ParseNumber(stage);
  if (!number || *number < 0 || *number >= stages) {
    return Fail(ErrorCode::kUsage, "--unused takes NAME=first, NAME=last or NAME=STAGE with a stage below {}, not `{}`",
                stages, text);
  }
  for (TensorLayout& tensor : layout.tensors) {
    if (tensor.name != name) continue;
    tensor.unused_stages.push_back(*number);
    tensor.declared_at = "--unused";
    return llvm::Error::success();
  }
  return Fail(ErrorCode::kUsage, "--unused names tensor `{}`, which the checkpoint does not have", name);
}

llvm::Error RefuseUnused(const SourceRequest& request) {
  if (request.unused.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "--unused is for checkpoints without a spec; write `unused` in the spec instead");
}

// The names that the spec gives to what stages number by themselves.
void TakeNames(const BoundSpec& bound, Inventory& inventory) {
  for (std::size_t i = 0; i < bound.shard_names.size(); ++i) {
    inventory.storage.shards[i].tensor = bound.shard_names[i];
  }
}

llvm::Error LayOutByCatalogue(const SourceRequest& request, SourcePhase& phase) {
  UCP_RETURN_IF_ERROR(RefuseUnused(request));
  Inventory& inventory = phase.checkpoint.inventory;
  llvm::Expected<PickedSpec> picked = PickSpec(CatalogueNames(), inventory, request.set);
  if (!picked) return NeedsSpec(inventory, picked.takeError());
  inventory.remarks.push_back(picked->why);
  phase.spec = std::move(picked->session);
  phase.bound = std::move(picked->bound);
  phase.layout = std::move(picked->layout);
  TakeNames(*phase.bound, inventory);
  return VerifyLayout(phase.layout);
}

llvm::Error LayOutWhole(const SourceRequest& request, SourcePhase& phase) {
  const Inventory& inventory = phase.checkpoint.inventory;
  if (!request.config.empty()) {
    return Fail(ErrorCode::kUsage, "--config gives values to the dims of a spec, and no spec is named");
  }
  UCP_ASSIGN_OR_RETURN(phase.layout, WholeLayout(inventory));
  for (const std::string& unused : request.unused) UCP_RETURN_IF_ERROR(ApplyUnused(unused, phase.layout));
  return llvm::Error::success();
}

llvm::Error LayOutBySpec(const SourceRequest& request, SourcePhase& phase) {
  UCP_RETURN_IF_ERROR(RefuseUnused(request));
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(request.spec));
  UCP_ASSIGN_OR_RETURN(phase.spec, OpenSpec(path));
  SpecSession& session = *phase.spec;
  Inventory& inventory = phase.checkpoint.inventory;
  if (!session.checked) return SpecErrors(session);
  phase.bound = BindSpec(*session.checked, inventory, request.set, session.sink);
  if (!phase.bound) return SpecErrors(session);
  TakeNames(*phase.bound, inventory);
  std::optional<Layout> layout = LowerToMesh(*phase.bound, {.mesh = inventory.mesh, .stage_layers = {}}, session.sink);
  if (!layout) return SpecErrors(session);
  phase.layout = std::move(*layout);
  return VerifyLayout(phase.layout);
}

}  // namespace

llvm::Expected<Checkpoint> DescribeSource(FileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(Recognised recognised, RecogniseAny(files, path));
  return recognised.format->Describe(files, recognised.folder);
}

llvm::Error DescribeAndBind(FileSystem& files, const SourceRequest& request, SourcePhase& phase) {
  UCP_ASSIGN_OR_RETURN(phase.checkpoint, DescribeSource(files, request.path));
  phase.folder = phase.checkpoint.inventory.root;
  Inventory& inventory = phase.checkpoint.inventory;
  UCP_RETURN_IF_ERROR(DropStates(request.drop_states, phase.checkpoint));
  if (request.spec.empty() && inventory.mesh.Size("tp") == 1) return LayOutWhole(request, phase);
  UCP_RETURN_IF_ERROR(request.config.empty() ? AddConfigBeside(files, {phase.folder, request.path}, inventory.facts)
                                             : AddConfig(files, request.config, inventory.facts));
  return request.spec.empty() ? LayOutByCatalogue(request, phase) : LayOutBySpec(request, phase);
}

// The name of a tensor behind `has` may hold an equals sign, and no value that it can be given does.
llvm::Expected<Settings> ParseSettings(const std::vector<std::string>& settings) {
  Settings set;
  for (const std::string& setting : settings) {
    std::size_t equals = setting.starts_with("has ") ? setting.rfind('=') : setting.find('=');
    std::optional<FactValue> value;
    if (equals != std::string::npos && equals != 0)
      value = ParseFactValue(std::string_view(setting).substr(equals + 1));
    if (!value) {
      return Fail(ErrorCode::kUsage, "--set takes NAME=VALUE, with a number, true, false, a text or a [list], not `{}`",
                  setting);
    }
    auto [entry, added] = set.emplace(setting.substr(0, equals), *value);
    if (!added && !(entry->second == *value)) {
      return Fail(ErrorCode::kUsage, "--set gives `{}` twice, {} and {}", entry->first, TextOf(entry->second),
                  TextOf(*value));
    }
  }
  return set;
}

}  // namespace ucp
