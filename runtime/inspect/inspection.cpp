#include "runtime/inspect/inspection.h"

#include <llvm/Support/GlobPattern.h>

#include <algorithm>

#include "compiler/plan/plan_report.h"
#include "compiler/support/error.h"
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

}  // namespace

const char* KindName(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParameter:
      return "parameter";
    case TensorKind::kFrozen:
      return "frozen";
    case TensorKind::kBuffer:
      return "buffer";
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
  std::erase_if(inspection.tensors, [&](const InspectedTensor& row) { return !glob->match(row.name); });
  return UseWholeShapes(phase.layout, inspection.tensors);
}

llvm::json::Object InspectionJson(const Inspection& inspection) {
  const Inventory& inventory = inspection.source.checkpoint.inventory;
  llvm::json::Array tensors;
  for (const InspectedTensor& row : inspection.tensors) {
    llvm::json::Object states;
    for (const auto& [state, dtype] : row.states) states[state] = dtype;
    llvm::json::Array shape;
    for (std::int64_t length : row.shape) shape.push_back(length);
    tensors.push_back(llvm::json::Object{{"name", row.name},
                                         {"kind", KindName(row.kind)},
                                         {"shape", std::move(shape)},
                                         {"tp_ranks", row.tensor_parallel_ranks},
                                         {"states", std::move(states)},
                                         {"bytes", row.bytes}});
  }
  llvm::json::Object mesh;
  for (const Axis& axis : inventory.mesh.axes) mesh[axis.name] = axis.size;
  llvm::json::Array remarks;
  for (const std::string& remark : inventory.remarks) remarks.push_back(remark);
  return llvm::json::Object{{"format", inventory.format},
                            {"folder", inventory.root},
                            {"mesh", std::move(mesh)},
                            {"files", inventory.storage.files.size()},
                            {"bytes", FileBytes(inventory.storage)},
                            {"remarks", std::move(remarks)},
                            {"decisions", DecisionsJson(inventory.decisions)},
                            {"tensors", std::move(tensors)}};
}

}  // namespace ucp
