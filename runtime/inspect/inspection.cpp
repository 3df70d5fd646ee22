#include "runtime/inspect/inspection.h"

#include <llvm/Support/GlobPattern.h>
#include <llvm/Support/JSON.h>

#include <algorithm>

#include "compiler/plan/plan_report.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
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

std::vector<InspectedTensor> TensorsOf(const Storage& storage) {
  std::map<std::string, InspectedTensor> rows;
  for (const Shard& shard : storage.shards) {
    auto [entry, added] = rows.try_emplace(shard.tensor);
    InspectedTensor& row = entry->second;
    if (added) {
      row.name = shard.tensor;
      row.kind = shard.kind;
      row.shape = shard.shape;
    }
    row.tensor_parallel_ranks =
        std::max(row.tensor_parallel_ranks, static_cast<std::uint64_t>(shard.coordinate.At("tp") + 1));
    for (const StateBuffer& state : storage.buffer_set(shard.states)) {
      row.states[state.state] = Name(storage.buffer(state.buffer).dtype);
    }
    row.bytes += ShardBytes(storage, shard);
  }
  std::vector<InspectedTensor> sorted;
  for (auto& [name, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

// With a spec, the whole shape takes the place of the local one.
llvm::Error UseWholeShapes(const Layout& layout, std::vector<InspectedTensor>& rows) {
  for (InspectedTensor& row : rows) {
    const TensorLayout* tensor = layout.Find(row.name);
    if (tensor == nullptr) continue;
    UCP_ASSIGN_OR_RETURN(row.shape, LogicalShape(*tensor));
    row.tensor_parallel_ranks = 1;
  }
  return llvm::Error::success();
}

void WriteTensor(const InspectedTensor& row, llvm::json::OStream& json) {
  json.object([&] {
    json.attribute("bytes", row.bytes);
    json.attribute("kind", KindName(row.kind));
    json.attribute("name", row.name);
    json.attribute("shape", row.shape);
    json.attributeObject("states", [&] {
      for (const auto& [state, dtype] : row.states) json.attribute(state, dtype);
    });
    json.attribute("tp_ranks", row.tensor_parallel_ranks);
  });
}

}  // namespace

std::optional<double> StepOf(const TrainingState& training) {
  if (training.groups.empty() || training.groups.front().step == nullptr) return std::nullopt;
  return StepNumber(training, *training.groups.front().step);
}

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

std::uint64_t FileBytes(const Storage& storage) {
  std::uint64_t bytes = 0;
  for (const StoredFile& file : storage.files) bytes += file.bytes;
  return bytes;
}

llvm::Error Inspect(FileSystem& files, const SourceOptions& source, const std::string& name_glob,
                    Inspection& inspection) {
  UCP_RETURN_IF_ERROR(CheckIsWhole(files, source.path));
  SourcePhase& phase = inspection.source;
  if (source.spec.empty()) {
    if (!source.set.empty() || !source.config.empty() || !source.unused.empty()) {
      return Fail(ErrorCode::kUsage, "--set, --config and --unused say how to read a spec, and no --spec is named");
    }
    UCP_ASSIGN_OR_RETURN(RankPreference preference, ParseRankPreference(source.prefer_rank));
    UCP_ASSIGN_OR_RETURN(phase.checkpoint, DescribeSource(files, source.path, preference));
  } else {
    UCP_ASSIGN_OR_RETURN(SourceRequest request, source.Request());
    UCP_RETURN_IF_ERROR(DescribeAndBind(files, request, phase));
  }
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(name_glob);
  if (!glob) {
    return Fail(ErrorCode::kUsage, "`{}` is no pattern for names: {}", name_glob, llvm::toString(glob.takeError()));
  }
  inspection.tensors = TensorsOf(phase.checkpoint.inventory.storage);
  const std::size_t all = inspection.tensors.size();
  std::erase_if(inspection.tensors, [&](const InspectedTensor& row) { return !glob->match(row.name); });
  if (all > 0 && inspection.tensors.empty()) {
    return Fail(ErrorCode::kUsage, "none of the {} in `{}` has a name that fits `{}`", Counted(all, "tensor"),
                phase.checkpoint.inventory.root, name_glob);
  }
  return UseWholeShapes(phase.layout, inspection.tensors);
}

// Keys are in their order, as those of all objects are that the programs print.
void WriteInspection(const Inspection& inspection, llvm::json::OStream& json) {
  const Inventory& inventory = inspection.source.checkpoint.inventory;
  llvm::json::Object mesh;
  for (const Axis& axis : inventory.mesh.axes) mesh[axis.name] = axis.size;
  json.object([&] {
    json.attribute("bytes", FileBytes(inventory.storage));
    json.attribute("decisions", DecisionsJson(inventory.decisions));
    json.attribute("files", inventory.storage.files.size());
    json.attribute("folder", inventory.root);
    json.attribute("format", inventory.format);
    json.attribute("mesh", std::move(mesh));
    json.attribute("remarks", inventory.remarks);
    if (std::optional<double> step = StepOf(inspection.source.checkpoint.training)) json.attribute("step", *step);
    json.attributeArray("tensors", [&] {
      for (const InspectedTensor& row : inspection.tensors) WriteTensor(row, json);
    });
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
