#include "compiler/describe/bound_source.h"

#include <fmt/format.h>

#include "compiler/bind/ambiguous_branches.h"
#include "compiler/bind/compare_with_metadata.h"
#include "compiler/bind/unmatched_patterns.h"
#include "compiler/catalogue/catalogue.h"
#include "compiler/catalogue/config_file.h"
#include "compiler/catalogue/pick_spec.h"
#include "compiler/describe/choose_layout.h"
#include "compiler/describe/drop_states.h"
#include "compiler/describe/loose_state_names.h"
#include "compiler/describe/without_spec.h"
#include "compiler/formats/identity.h"
#include "compiler/formats/recognise/links.h"
#include "compiler/formats/recognise/recognise.h"
#include "compiler/infer/embedded_cuts.h"
#include "compiler/layout/fact_value.h"
#include "compiler/layout/seen_by_specs.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// The spec counts, whatever the metadata says; where that is of another opinion, the author should know.
void CompareWithMetadata(BoundSource& phase) {
  Inventory& inventory = phase.checkpoint.inventory;
  if (inventory.embedded() == nullptr || inventory.mesh.Size("tp") == 1) return;
  llvm::Expected<EmbeddedCuts> embedded = ReadEmbeddedCuts(inventory);
  if (!embedded) {
    inventory.remarks.push_back("the spec could not be compared with the checkpoint's own metadata: " +
                                llvm::toString(embedded.takeError()));
    return;
  }
  WarnWhereMetadataDiffers(*phase.bound, phase.layout, embedded->layout, phase.spec->sink);
}

llvm::Expected<OpenedSpec> OpenSpecOf(const SourceRequest& request) {
  if (request.given != nullptr && !request.given->spec.empty()) return OpenSpec(request.given->spec);
  UCP_ASSIGN_OR_RETURN(const std::string path, FindSpec(request.spec));
  return OpenSpec(path);
}

llvm::Error AddConfigOf(ReadableFileSystem& files, const SourceRequest& request, const std::string& folder,
                        std::map<std::string, Fact>& facts) {
  if (request.given != nullptr && request.given->config) return AddConfig(*request.given->config, facts);
  if (!request.config.empty()) return AddConfig(files, request.config, facts);
  return AddConfigBeside(files, {folder, request.path}, facts);
}

llvm::Error LayOutBySpec(const SourceRequest& request, BoundSource& phase) {
  if (!request.unused.empty()) {
    return Fail(ErrorCode::kUsage, "{} is for checkpoints without a spec; write `unused` in the spec instead",
                OptionName(UserOption::kUnused));
  }
  UCP_ASSIGN_OR_RETURN(phase.spec, OpenSpecOf(request));
  if (request.opened != nullptr) *request.opened = phase.spec;
  SpecSession& session = *phase.spec;
  Inventory& inventory = phase.checkpoint.inventory;
  if (!session.checked) return SpecErrors(session);
  std::optional<Inventory> whole;
  const Inventory& seen = SeenBySpecs(inventory, whole);
  UCP_ASSIGN_OR_RETURN(phase.bound, BindLayoutOf(session, seen, request.set, inventory.remarks));
  TakeNames(*phase.bound, inventory);
  if (request.warns_of_unmatched) {
    Settings set = request.set;
    if (session.checked->model) set.erase(kLayoutSetting);
    WarnOfUnmatchedPatterns(*phase.bound, seen, set, session.sink);
    WarnOfAmbiguousBranches(*phase.bound, seen, set, session.sink);
  }
  std::optional<Layout> layout =
      inventory.is_whole() ? LowerWhole(*phase.bound, session.sink)
                           : LowerToMesh(*phase.bound, {.mesh = inventory.mesh, .stage_layers = {}}, session.sink);
  if (!layout) return SpecErrors(session);
  phase.layout = std::move(*layout);
  UCP_RETURN_IF_ERROR(VerifyLayout(phase.layout));
  CompareWithMetadata(phase);
  return llvm::Error::success();
}

// By the model of the catalogue that fits, and has the target's layout.
llvm::Error LayOutByModel(SourceRequest request, BoundSource& phase) {
  Inventory& inventory = phase.checkpoint.inventory;
  Settings set = request.set;
  set.erase(kLayoutSetting);
  UCP_ASSIGN_OR_RETURN(request.spec, PickModel(inventory, set, request.to_layout));
  inventory.remarks.push_back(fmt::format("the model `{}` of the catalogue fits; {} would outrank it", request.spec,
                                          OptionName(UserOption::kSpec)));
  return LayOutBySpec(request, phase);
}

llvm::Error LayOut(ReadableFileSystem& files, const SourceRequest& request, BoundSource& phase) {
  Inventory& inventory = phase.checkpoint.inventory;
  if (request.spec.empty() && !request.to_layout.empty()) {
    UCP_RETURN_IF_ERROR(AddConfigOf(files, request, phase.folder, inventory.facts));
    return LayOutByModel(request, phase);
  }
  const bool is_whole = request.spec.empty() && inventory.mesh.Size("tp") == 1;
  if (is_whole && request.cut_over <= 1) return LayOutWhole(request, phase);
  UCP_RETURN_IF_ERROR(AddConfigOf(files, request, phase.folder, inventory.facts));
  if (is_whole) return LayOutWhole(request, phase);
  return request.spec.empty() ? LayOutWithoutSpec(request, phase) : LayOutBySpec(request, phase);
}

// How the checkpoint was found comes first.
llvm::Error AddRemarks(WatchedLinks& files, const std::string& path, Recognised recognised, Inventory& inventory) {
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(path));
  UCP_ASSIGN_OR_RETURN(std::string of_links, files.Remark(kind == PathKind::kDirectory ? path : inventory.root,
                                                          inventory.root, inventory.storage.files));
  if (!of_links.empty()) recognised.remarks.push_back(std::move(of_links));
  inventory.remarks.insert(inventory.remarks.begin(), recognised.remarks.begin(), recognised.remarks.end());
  return llvm::Error::success();
}

// The boxes that the shards are, on top of what the tensors are.
void TakeBoxes(const Inventory& inventory, Layout& layout) {
  layout.mesh = inventory.mesh;
  for (TensorLayout& tensor : layout.tensors) {
    const auto found = inventory.boxes()->find(tensor.name);
    if (found != inventory.boxes()->end() && found->second.boxes.size() > 1) tensor.boxes = found->second.boxes;
  }
}

}  // namespace

llvm::Expected<Layout> StoredLayoutOf(const BoundSource& phase) {
  const Inventory& inventory = phase.checkpoint.inventory;
  if (!inventory.is_whole()) return phase.layout;
  UCP_ASSIGN_OR_RETURN(Layout whole, AtomicLayout(phase.layout));
  whole.mesh = phase.layout.mesh;
  whole.dropped = phase.layout.dropped;
  if (inventory.boxes() != nullptr) TakeBoxes(inventory, whole);
  return whole;
}

void TakeNames(const BoundSpec& bound, Inventory& inventory) {
  if (inventory.boxes() != nullptr) return;  // Its names are the model's, and a tensor has any number of shards.
  for (std::size_t i = 0; i < bound.shard_names.size(); ++i) {
    inventory.storage.shards[i].tensor = bound.shard_names[i];
  }
}

llvm::Expected<Checkpoint> DescribeSource(ReadableFileSystem& files, const std::string& path,
                                          const RankPreference& preference, unsigned threads, bool repairs) {
  UCP_ASSIGN_OR_RETURN(Recognised recognised, RecogniseAny(files, path));
  WatchedLinks watched(files);
  const auto describe = repairs ? &Format::DescribeRepaired : &Format::Describe;
  UCP_ASSIGN_OR_RETURN(Checkpoint checkpoint,
                       (recognised.format->*describe)(watched, recognised.folder, preference, threads));
  UCP_RETURN_IF_ERROR(AddRemarks(watched, path, std::move(recognised), checkpoint.inventory));
  Mesh ranks = checkpoint.inventory.mesh;
  if (ranks.axes.empty()) ranks.axes = {{"mp", std::ssize(checkpoint.training.ranks)}};
  UCP_RETURN_IF_ERROR(CheckPreference(preference, ranks));
  return checkpoint;
}

llvm::Expected<Described> DescribeCheckpoint(ReadableFileSystem& files, const SourceRequest& request) {
  BeginPhase(request.clock, "describe");
  UCP_ASSIGN_OR_RETURN(Checkpoint checkpoint,
                       DescribeSource(files, request.path, request.preference, request.threads, request.repairs));
  CheckpointIdentity identity = IdentityOf(checkpoint);
  std::string folder = checkpoint.inventory.root;
  return Described{std::move(folder), request.path, std::move(identity), std::move(checkpoint)};
}

llvm::Expected<BoundSource> BindCheckpoint(ReadableFileSystem& files, const SourceRequest& request,
                                           Described described) {
  BeginPhase(request.clock, "bind");
  BoundSource source{std::move(described), nullptr, std::nullopt, "", {}, {}};
  UCP_RETURN_IF_ERROR(DropStates(request.drop_states, source.checkpoint));
  UCP_RETURN_IF_ERROR(LayOut(files, request, source));
  UCP_ASSIGN_OR_RETURN(source.stored_layout, StoredLayoutOf(source));
  UCP_RETURN_IF_ERROR(NameLooseStates(source.layout, source.checkpoint));
  return source;
}

llvm::Expected<BoundSource> DescribeAndBind(ReadableFileSystem& files, const SourceRequest& request) {
  UCP_ASSIGN_OR_RETURN(Described described, DescribeCheckpoint(files, request));
  return BindCheckpoint(files, request, std::move(described));
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
      return Fail(ErrorCode::kUsage, "{} takes NAME=VALUE, with a number, true, false, a text or a [list], not `{}`",
                  OptionName(UserOption::kSets), setting);
    }
    auto [entry, added] = set.emplace(setting.substr(0, equals), *value);
    if (!added && !(entry->second == *value)) {
      return Fail(ErrorCode::kUsage, "{} gives `{}` twice, {} and {}", OptionName(UserOption::kSets), entry->first,
                  TextOf(entry->second), TextOf(*value));
    }
  }
  return set;
}

}  // namespace ucp
