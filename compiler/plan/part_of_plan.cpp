// Everything is kept that what is kept points to, and is numbered anew in its old order, so that tables stay sorted.
#include "compiler/plan/part_of_plan.h"

#include <algorithm>

#include "compiler/plan/steps.h"

namespace ucp {
namespace {

template <typename T>
void SortAndJoin(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Ids that are kept, and their new numbers.
template <typename Id>
class Kept {
 public:
  void Keep(Id id) { ids_.push_back(id); }
  void Number() { SortAndJoin(ids_); }
  Id operator[](Id id) const {
    return Id(static_cast<std::size_t>(std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin()));
  }
  const std::vector<Id>& ids() const { return ids_; }

 private:
  std::vector<Id> ids_;
};

// One side's tables, as far as some buffer sets and records reach.
class KeptStorage {
 public:
  explicit KeptStorage(const StorageTables& tables) : tables_(tables) {}

  void Keep(BufferSetId set) { sets_.Keep(set); }
  void Keep(RecordId record) { records_.Keep(record); }
  void Keep(FileId file) { files_.Keep(file); }

  void Number() {
    sets_.Number();
    for (BufferSetId set : sets_.ids()) {
      for (const StateBuffer& state : tables_.buffer_set(set)) buffers_.Keep(state.buffer);
    }
    buffers_.Number();
    for (BufferId buffer : buffers_.ids()) {
      for (const BufferPart& part : tables_.buffer(buffer).parts) records_.Keep(part.record);
    }
    records_.Number();
    for (RecordId record : records_.ids()) files_.Keep(tables_.record(record).file);
    files_.Number();
  }

  StorageTables Tables() const {
    StorageTables part;
    for (FileId file : files_.ids()) part.files.push_back(tables_.files[file.index()]);
    for (RecordId id : records_.ids()) {
      part.records.push_back(tables_.record(id));
      part.records.back().file = files_[part.records.back().file];
    }
    for (BufferId id : buffers_.ids()) {
      part.buffers.push_back(tables_.buffer(id));
      for (BufferPart& entry : part.buffers.back().parts) entry.record = records_[entry.record];
    }
    for (BufferSetId id : sets_.ids()) {
      part.buffer_sets.push_back(tables_.buffer_set(id));
      for (StateBuffer& state : part.buffer_sets.back()) state.buffer = buffers_[state.buffer];
    }
    return part;
  }

  BufferSetId NumberOf(BufferSetId set) const { return sets_[set]; }
  FileId NumberOf(FileId file) const { return files_[file]; }
  const std::vector<RecordId>& records() const { return records_.ids(); }
  const std::vector<FileId>& files() const { return files_.ids(); }

 private:
  const StorageTables& tables_;
  Kept<BufferSetId> sets_;
  Kept<BufferId> buffers_;
  Kept<RecordId> records_;
  Kept<FileId> files_;
};

}  // namespace

PlanCutter::PlanCutter(const Plan& plan)
    : plan_(plan),
      writes_of_record_(plan.target.records.size()),
      reads_of_tensor_(plan.tensors.size(), {0, 0}),
      placements_of_file_(plan.target.files.size()),
      geometries_(plan) {
  for (std::size_t r = 0; r < plan.reads.size(); ++r) {
    auto& [first, end] = reads_of_tensor_[plan.reads[r].tensor.index()];
    if (end == 0) first = r;
    end = r + 1;
  }
  for (std::size_t w = 0; w < plan.writes.size(); ++w) {
    writes_of_kind_[plan.writes[w].pieces].push_back(w);
  }
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    std::vector<std::uint32_t>& writes = writes_of_record_[range.record.index()];
    if (writes.empty() || writes.back() != range.write) writes.push_back(static_cast<std::uint32_t>(range.write));
  });
  for (std::size_t p = 0; p < plan.placements.size(); ++p) {
    placements_of_file_[plan.placements[p].file.index()].push_back(static_cast<std::uint32_t>(p));
  }
}

std::vector<std::size_t> PlanCutter::WritesOf(std::span<const RecordId> wanted) const {
  std::vector<std::size_t> writes;
  for (RecordId record : wanted) {
    for (std::size_t write : writes_of_record_[record.index()]) {
      const std::vector<std::size_t>& same = writes_of_kind_.at(plan_.writes[write].pieces);
      writes.insert(writes.end(), same.begin(), same.end());
    }
  }
  SortAndJoin(writes);
  return writes;
}

// The rows of all tables that are kept.
struct PlanCutter::Part {
  explicit Part(const Plan& plan) : source(plan.source), target(plan.target) {}

  Kept<TensorId> tensors;
  Kept<SetId> sets;
  std::vector<std::size_t> geometries;
  std::vector<std::size_t> reads;
  KeptStorage source;
  KeptStorage target;
};

void PlanCutter::Keep(const PlanWrite& write, Part& part) const {
  part.target.Keep(write.states);
  if (write.fused && write.fused->part) {
    for (const SetId set : write.fused->part->held) part.sets.Keep(set);
  }
  for (const WrittenPiece& piece : write.pieces) {
    part.tensors.Keep(piece.tensor);
    part.sets.Keep(piece.set);
    const auto [first, end] = reads_of_tensor_[piece.tensor.index()];
    for (std::size_t r = first; r < end; ++r) {
      const PlanRead& read = plan_.reads[r];
      if (read.role == ReadRole::kUnused) continue;
      const Geometry* geometry = geometries_.Find(read.set, piece.set);
      if (geometry == nullptr) continue;
      part.sets.Keep(read.set);
      part.source.Keep(read.states);
      part.geometries.push_back(static_cast<std::size_t>(geometry - plan_.geometries.data()));
      part.reads.push_back(r);
    }
  }
}

void PlanCutter::AddTensors(const Part& part, std::span<const std::size_t> writes, Plan& plan) const {
  for (TensorId tensor : part.tensors.ids()) plan.tensors.push_back(plan_.tensor(tensor));
  for (SetId set : part.sets.ids()) plan.sets.push_back(plan_.set(set));
  for (std::size_t g : part.geometries) {
    Geometry& geometry = plan.geometries.emplace_back(plan_.geometries[g]);
    geometry.source = part.sets[geometry.source];
    geometry.target = part.sets[geometry.target];
  }
  for (std::size_t r : part.reads) {
    PlanRead& read = plan.reads.emplace_back(plan_.reads[r]);
    read.tensor = part.tensors[read.tensor];
    read.set = part.sets[read.set];
    read.states = part.source.NumberOf(read.states);
  }
  for (std::size_t w : writes) {
    PlanWrite& write = plan.writes.emplace_back(plan_.writes[w]);
    for (WrittenPiece& piece : write.pieces) {
      piece.tensor = part.tensors[piece.tensor];
      piece.set = part.sets[piece.set];
    }
    if (write.fused && write.fused->part) {
      for (SetId& set : write.fused->part->held) set = part.sets[set];
    }
    write.states = part.target.NumberOf(write.states);
  }
}

ReadyMadePart PlanCutter::ReadyMade(const PlanPart& part, std::span<const FileId> files) const {
  ReadyMadePart ready;
  Kept<BlobId> blobs;
  for (FileId file : files) {
    const auto number = std::lower_bound(part.files.begin(), part.files.end(), file) - part.files.begin();
    for (std::size_t p : placements_of_file_[file.index()]) {
      ready.placements.push_back(plan_.placements[p]);
      ready.placements.back().file = FileId(static_cast<std::size_t>(number));
      blobs.Keep(plan_.placements[p].blob);
    }
  }
  blobs.Number();
  for (BlobPlacement& placement : ready.placements) placement.blob = blobs[placement.blob];
  for (BlobId blob : blobs.ids()) ready.blobs.push_back(plan_.blobs[blob.index()]);
  return ready;
}

PlanPart PlanCutter::Cut(std::span<const std::size_t> writes, std::span<const RecordId> records,
                         std::span<const FileId> files) const {
  Part part(plan_);
  for (std::size_t write : writes) Keep(plan_.writes[write], part);
  SortAndJoin(part.geometries);
  SortAndJoin(part.reads);
  for (RecordId record : records) part.target.Keep(record);
  for (FileId file : files) part.target.Keep(file);
  part.tensors.Number();
  part.sets.Number();
  part.source.Number();
  part.target.Number();
  PlanPart cut;
  Plan& plan = cut.plan;
  plan.tool_version = plan_.tool_version;
  plan.spec_hash = plan_.spec_hash;
  plan.source_format = plan_.source_format;
  plan.target_format = plan_.target_format;
  plan.source_mesh = plan_.source_mesh;
  plan.target_mesh = plan_.target_mesh;
  plan.remarks = plan_.remarks;
  plan.left_out = plan_.left_out;
  plan.preference = plan_.preference;
  plan.source = part.source.Tables();
  plan.target = part.target.Tables();
  AddTensors(part, writes, plan);
  cut.records = part.target.records();
  cut.files = part.target.files();
  return cut;
}

}  // namespace ucp
