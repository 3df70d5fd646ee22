#include "runtime/inspect/inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/Support/GlobPattern.h>
#include <llvm/Support/JSON.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/catalogue/catalogue.h"
#include "compiler/catalogue/config_file.h"
#include "compiler/catalogue/pick_spec.h"
#include "compiler/files/unpacked_file.h"
#include "compiler/formats/identity.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/plan/plan_report.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"
#include "runtime/manifest/part_of_checkpoint.h"

namespace ucp {
namespace {

std::uint64_t ShardBytes(const Storage& storage, const Shard& shard) {
  std::uint64_t elements = 1;
  for (std::int64_t length : shard.shape) elements *= static_cast<std::uint64_t>(length);
  std::uint64_t bytes = 0;
  for (const StateBuffer& entry : storage.buffer_set(shard.states)) {
    bytes += elements * static_cast<std::uint64_t>(ItemBytes(storage.buffer(entry.buffer).dtype));
  }
  return bytes;
}

// The shape that most tensor-parallel ranks hold, and how many of all ranks that is.
void CountRanks(const std::map<std::vector<std::int64_t>, std::set<std::int64_t>>& holders, std::uint64_t ranks,
                InspectedTensor& row) {
  for (const auto& [shape, held_by] : holders) {
    if (held_by.size() < row.tensor_parallel_ranks) continue;
    row.shape = shape;
    row.tensor_parallel_ranks = held_by.size();
  }
  if (!holders.empty()) row.other_ranks = ranks - row.tensor_parallel_ranks;
}

std::vector<InspectedTensor> TensorsOf(const Storage& storage, std::uint64_t tensor_parallel_ranks) {
  std::map<std::string, std::map<std::vector<std::int64_t>, std::set<std::int64_t>>> holders;
  std::map<std::string, InspectedTensor> rows;
  for (const Shard& shard : storage.shards) {
    auto [entry, added] = rows.try_emplace(shard.tensor);
    InspectedTensor& row = entry->second;
    if (added) {
      row.name = shard.tensor;
      row.kind = shard.kind;
      row.shape = shard.shape;
    }
    if (const std::int64_t rank = shard.coordinate.At("tp"); rank >= 0) holders[shard.tensor][shard.shape].insert(rank);
    for (const StateBuffer& state : storage.buffer_set(shard.states)) {
      row.states[state.state] = Name(storage.buffer(state.buffer).dtype);
    }
    row.bytes += ShardBytes(storage, shard);
  }
  std::vector<InspectedTensor> sorted;
  const bool is_trained =
      std::ranges::any_of(rows, [](const auto& row) { return row.second.kind == TensorKind::kParameter; });
  for (auto& [name, row] : rows) {
    CountRanks(holders[name], tensor_parallel_ranks, row);
    row.kind_name = row.kind == TensorKind::kFrozen && !is_trained ? "weight" : KindName(row.kind);
    sorted.push_back(std::move(row));
  }
  return sorted;
}

// With a spec, the whole shape takes the place of the local one.
llvm::Error UseWholeShapes(const Layout& layout, std::vector<InspectedTensor>& rows) {
  for (InspectedTensor& row : rows) {
    const TensorLayout* tensor = layout.Find(row.name);
    if (tensor == nullptr) continue;
    UCP_ASSIGN_OR_RETURN(row.shape, LogicalShape(*tensor));
    row.tensor_parallel_ranks = 1;
    row.other_ranks = 0;
  }
  return llvm::Error::success();
}

std::optional<std::uint64_t> ElementsOf(const Inspection& inspection) {
  const Mesh& mesh = inspection.source.checkpoint.inventory.mesh;
  const bool is_whole = mesh.Size("tp") == 1 && mesh.Size("ep") == 1;
  if (!is_whole && inspection.source.layout.tensors.empty()) return std::nullopt;
  std::uint64_t elements = 0;
  for (const InspectedTensor& row : inspection.tensors) {
    if (row.kind == TensorKind::kBuffer || row.kind == TensorKind::kCarried) continue;
    std::uint64_t of_tensor = 1;
    for (std::int64_t length : row.shape) of_tensor *= static_cast<std::uint64_t>(length);
    elements += of_tensor;
  }
  return elements;
}

// Finds what a conversion without --spec would find there, or, on one rank, one to a target of several.
llvm::Error FindFittingSpecs(ReadableFileSystem& files, const std::string& path, Inspection& inspection) {
  Inventory inventory = inspection.source.checkpoint.inventory;
  UCP_RETURN_IF_ERROR(AddConfigBeside(files, {inventory.root, path}, inventory.facts));
  llvm::Expected<PickedSpec> picked = PickSpec(CatalogueNames(), inventory, {}, 0);
  if (!picked) return llvm::handleErrors(picked.takeError(), [](const Failure&) {});
  inspection.fitting_specs = {picked->name};
  inspection.fitting_specs.insert(inspection.fitting_specs.end(), picked->same.begin(), picked->same.end());
  return llvm::Error::success();
}

void WriteTensor(const InspectedTensor& row, llvm::json::OStream& json) {
  json.object([&] {
    json.attribute("bytes", row.bytes);
    json.attribute("kind", row.kind_name);
    json.attribute("name", row.name);
    json.attribute("shape", row.shape);
    json.attributeObject("states", [&] {
      for (const auto& [state, dtype] : row.states) json.attribute(state, dtype);
    });
    json.attribute("tp_ranks", row.tensor_parallel_ranks);
  });
}

}  // namespace

const char* KindName(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParameter:
      return "parameter";
    case TensorKind::kFrozen:
      return "frozen";
    case TensorKind::kBuffer:
      return "buffer";
    case TensorKind::kCarried:
      return "carried";
  }
  return "";
}

std::string OptimizerText(const TrainingState& training) {
  std::vector<std::string> facts;
  const pytorch::ValuePtr config = FindEntry(training.engine, "ds_config");
  const pytorch::ValuePtr zero = config ? pytorch::Find(*config, "zero_optimization") : nullptr;
  const pytorch::ValuePtr stage = zero ? pytorch::Find(*zero, "stage") : nullptr;
  if (const auto number = stage ? pytorch::AsInteger(*stage) : std::nullopt) {
    facts.push_back(fmt::format("ZeRO stage {}", *number));
  }
  if (!training.groups.empty()) facts.push_back(Counted(training.groups.size(), "parameter group"));
  return fmt::format("{}", fmt::join(facts, ", "));
}

FilesOfStorage FilesOf(const Storage& storage) {
  FilesOfStorage files;
  for (const StoredFile& file : storage.files) {
    if (UnpackedName::Of(file.path)) continue;
    ++files.count;
    files.bytes += file.bytes;
  }
  return files;
}

llvm::Expected<Inspection> Inspect(ReadableFileSystem& files, const SourceTexts& source, const std::string& name_glob,
                                   OpenedSpec& spec) {
  UCP_RETURN_IF_ERROR(CheckIsWhole(files, source.path));
  Inspection inspection;
  inspection.path = source.path;
  BoundSource& phase = inspection.source;
  if (source.spec.empty()) {
    if (!source.set.empty() || !source.config.empty() || !source.unused.empty()) {
      return Fail(ErrorCode::kUsage, "{}, {} and {} say how to read a spec, and no {} is named",
                  OptionName(UserOption::kSets), OptionName(UserOption::kConfig), OptionName(UserOption::kUnused),
                  OptionName(UserOption::kSpec));
    }
    UCP_ASSIGN_OR_RETURN(RankPreference preference, ParseRankPreference(source.prefer_rank));
    UCP_ASSIGN_OR_RETURN(phase.checkpoint, DescribeSource(files, source.path, preference));
    phase.identity = IdentityOf(phase.checkpoint);
    UCP_RETURN_IF_ERROR(FindFittingSpecs(files, source.path, inspection));
  } else {
    UCP_ASSIGN_OR_RETURN(SourceRequest request, source.Request());
    request.opened = &spec;
    UCP_ASSIGN_OR_RETURN(phase, DescribeAndBind(files, request));
  }
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(name_glob);
  if (!glob) {
    return Fail(ErrorCode::kUsage, "`{}` is not a valid pattern for names: {}", name_glob,
                llvm::toString(glob.takeError()));
  }
  const Inventory& inventory = phase.checkpoint.inventory;
  inspection.tensors = TensorsOf(inventory.storage, static_cast<std::uint64_t>(inventory.mesh.Size("tp")));
  inspection.all_tensors = inspection.tensors.size();
  const std::size_t all = inspection.tensors.size();
  std::erase_if(inspection.tensors, [&](const InspectedTensor& row) { return !glob->match(row.name); });
  if (all > 0 && inspection.tensors.empty()) {
    return Fail(ErrorCode::kUsage, "none of the {} in `{}` has a name that fits `{}`", Counted(all, "tensor"),
                phase.checkpoint.inventory.root, name_glob);
  }
  if (inventory.boxes() != nullptr) {
    UCP_ASSIGN_OR_RETURN(const Layout whole, WholeLayout(inventory));
    UCP_RETURN_IF_ERROR(UseWholeShapes(whole, inspection.tensors));
  }
  UCP_RETURN_IF_ERROR(UseWholeShapes(phase.layout, inspection.tensors));
  inspection.elements = ElementsOf(inspection);
  return inspection;
}

// Keys are in their order, as those of all objects are that the programs print.
void WriteInspection(const Inspection& inspection, llvm::json::OStream& json) {
  const Inventory& inventory = inspection.source.checkpoint.inventory;
  llvm::json::Object mesh;
  for (const Axis& axis : inventory.mesh.axes) mesh[axis.name] = axis.size;
  json.object([&] {
    json.attribute("bytes", FilesOf(inventory.storage).bytes);
    json.attribute("checkpoint", IdentityJson(inspection.source.identity));
    json.attribute("decisions", DecisionsJson(inventory.decisions));
    if (inspection.elements) json.attribute("elements", *inspection.elements);
    json.attribute("files", FilesOf(inventory.storage).count);
    json.attribute("fitting_specs", inspection.fitting_specs);
    json.attribute("folder", inventory.root);
    json.attribute("format", inventory.format);
    json.attribute("mesh", std::move(mesh));
    json.attribute("remarks", inventory.remarks);
    if (std::optional<double> step = OptimizerStep(inspection.source.checkpoint.training))
      json.attribute("step", *step);
    json.attributeArray("tensors", [&] {
      for (const InspectedTensor& row : inspection.tensors) WriteTensor(row, json);
    });
    json.attribute("version", kJsonVersion);
  });
}

std::string InspectionAsJson(const Inspection& inspection) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  WriteInspection(inspection, json);
  json.flush();
  return text;
}

}  // namespace ucp
