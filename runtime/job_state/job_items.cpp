#include "runtime/job_state/job_items.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/formats/dcp/entries/describe_entries.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp {
std::string SegmentName(std::size_t rank) { return fmt::format("rank_{}", rank); }
bool IsSegmentName(const std::string& name) { return !name.ends_with(".pt"); }
std::string ValuesName(std::size_t rank) { return fmt::format("rank_{}_values.pt", rank); }

JobItems::JobItems(ReadableFileSystem& files, Checkpoint& checkpoint)
    : storage_(checkpoint.inventory.storage),
      training_(checkpoint.training),
      archives_(files, kJobFolder, storage_, training_) {}

llvm::Expected<std::unique_ptr<JobItems>> JobItems::Make(const JoinedState& state, ReadableFileSystem& files,
                                                         Checkpoint& checkpoint) {
  std::unique_ptr<JobItems> items(new JobItems(files, checkpoint));
  for (std::size_t rank = 0; rank < state.ranks.size(); ++rank) {
    const std::string name = SegmentName(rank);
    items->segments_.push_back(items->storage_.Add(StoredFile{name, state.ranks[rank].bytes, ""}));
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenForReading(JoinPath(kJobFolder, name)));
    items->open_.push_back(std::move(file));
  }
  for (const dcp::Entry& entry : state.entries) {
    if (!entry.is_tensor) continue;
    for (const dcp::Chunk& chunk : entry.chunks) {
      dcp::ItemTensor& tensor = items->tensors_[&chunk];
      tensor.dtype = entry.dtype;
      tensor.sizes.assign(chunk.sizes.begin(), chunk.sizes.end());
      tensor.record_bytes = chunk.place.bytes;
    }
  }
  items->values_.resize(state.ranks.size());
  items->value_of_key_.resize(state.ranks.size());
  for (std::size_t rank = 0; rank < state.ranks.size(); ++rank) {
    if (state.ranks[rank].values.empty()) continue;
    if (llvm::Error error = items->OpenValues(rank)) {
      return AddContext(std::move(error), fmt::format("the values of rank {}", rank));
    }
  }
  return items;
}

Record JobItems::record(const dcp::Chunk& chunk) const {
  return {segments_[chunk.place.file], chunk.place.offset, chunk.place.bytes, {}};
}

llvm::Error JobItems::OpenValues(std::size_t rank) {
  UCP_ASSIGN_OR_RETURN(values_[rank], archives_.Open(ValuesName(rank)));
  const auto* entries = pytorch::Entries(values_[rank].root());
  if (entries == nullptr) return Fail(ErrorCode::kBadData, "they are not a dict");
  for (const pytorch::Entry& entry : *entries) {
    if (const auto key = pytorch::AsText(*entry.key)) value_of_key_[rank].emplace(*key, entry.value);
  }
  return llvm::Error::success();
}

llvm::Expected<std::unordered_map<const dcp::Entry*, pytorch::ValuePtr>> JobItems::Keep(
    std::vector<const dcp::Entry*> entries) {
  std::unordered_map<const dcp::Entry*, pytorch::ValuePtr> kept;
  for (const dcp::Entry* entry : entries) {
    UCP_ASSIGN_OR_RETURN(pytorch::ValuePtr value, entry->is_tensor ? KeepTensor(*entry) : KeepValue(*entry));
    kept.emplace(entry, std::move(value));
  }
  return kept;
}

llvm::Expected<pytorch::ValuePtr> JobItems::KeepValue(const dcp::Entry& entry) {
  const std::size_t rank = entry.chunks.front().place.file;
  const auto found = value_of_key_[rank].find(entry.key);
  if (found == value_of_key_[rank].end()) {
    return Fail(ErrorCode::kBadData, "rank {} did not send its value `{}`", rank, entry.key);
  }
  return archives_.Keep(values_[rank], found->second, fmt::format("`{}`", entry.key));
}

llvm::Expected<pytorch::ValuePtr> JobItems::KeepTensor(const dcp::Entry& entry) {
  const dcp::Chunk& chunk = entry.chunks.front();
  const dcp::ItemTensor& tensor = tensors_.at(&chunk);
  if (tensor.record_bytes > kMostSmallBytes) {
    Buffer buffer;
    buffer.dtype = entry.dtype;
    buffer.part_elements = static_cast<std::int64_t>(tensor.record_bytes) / ItemBytes(entry.dtype);
    const RecordId of_chunk = storage_.Add(record(chunk));
    buffer.parts.push_back({of_chunk, 0, buffer.part_elements});
    const BufferSetId states = storage_.Add(BufferSet{{kWeightState, storage_.Add(std::move(buffer))}});
    const std::string key = AddTensor(
        training_, MakeLargeTensor(fmt::format("{} of the job", entry.key), entry.dtype, entry.shape, {}, states, 0));
    return pytorch::MakeWholeTensor(key, entry.dtype, entry.shape);
  }
  std::string bytes(tensor.record_bytes, '\0');
  UCP_RETURN_IF_ERROR(open_[chunk.place.file]->ReadAt(chunk.place.offset, std::as_writable_bytes(std::span(bytes))));
  auto [known, is_new] = small_tensor_keys_.try_emplace(fmt::format("{} {}", Name(entry.dtype), bytes));
  if (is_new) known->second = AddTensor(training_, SmallTensorData{entry.dtype, std::move(bytes)});
  return pytorch::MakeWholeTensor(known->second, entry.dtype, entry.shape);
}

llvm::Expected<Checkpoint> DescribeJob(const JoinedState& state, ReadableFileSystem& files, const std::string& tag) {
  Checkpoint checkpoint;
  checkpoint.inventory.root = kJobFolder;
  checkpoint.training.tag = tag;
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<JobItems> items, JobItems::Make(state, files, checkpoint));
  dcp::StateDict dict;
  dict.name = "the job's state";
  dict.origin = ValuesName(0);
  dict.entries = state.entries;
  dict.has_paths = true;
  dict.is_folder = false;
  if (state.part) dict.part = &*state.part;
  if (state.machines) dict.machines = &*state.machines;
  UCP_RETURN_IF_ERROR(dcp::DescribeEntries(dict, *items, checkpoint));
  checkpoint.inventory.format = "job";
  return checkpoint;
}

}  // namespace ucp
