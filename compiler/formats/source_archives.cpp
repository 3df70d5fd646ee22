#include "compiler/formats/source_archives.h"

#include <fmt/format.h>
#include <llvm/ADT/DenseSet.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/pytorch/values/value_walk.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

bool HoldsBareStorage(const pytorch::Value& root) {
  llvm::DenseSet<const pytorch::Value*> seen;
  std::vector<const pytorch::Value*> visits = {&root};
  while (!visits.empty()) {
    const pytorch::Value* value = visits.back();
    visits.pop_back();
    if (!seen.insert(value).second) continue;
    if (value->As<pytorch::StorageReference>() != nullptr) return true;
    pytorch::AppendChildren(*value, visits);
  }
  return false;
}

// The keys and places that lead from a value to one in it, joined with dots: a map from each value to its first parent
// makes the walk linear, however often parts are shared.
std::string KeysTo(const pytorch::Value& root, const pytorch::Value& target) {
  struct Step {
    const pytorch::Value* parent;
    std::string key;
  };
  std::unordered_map<const pytorch::Value*, Step> steps = {{&root, {nullptr, ""}}};
  std::vector<const pytorch::Value*> visits = {&root};
  while (!visits.empty() && !steps.contains(&target)) {
    const pytorch::Value* value = visits.back();
    visits.pop_back();
    auto visit = [&](const pytorch::ValuePtr& child, std::string key) {
      if (steps.try_emplace(child.get(), Step{value, std::move(key)}).second) visits.push_back(child.get());
    };
    for (const auto* entries : {pytorch::Entries(*value), pytorch::Attributes(*value)}) {
      if (entries == nullptr) continue;
      for (const pytorch::Entry& entry : *entries) {
        auto text = pytorch::AsText(*entry.key);
        visit(entry.value, text ? std::string(*text) : pytorch::Print(*entry.key));
      }
    }
    if (const auto* items = pytorch::Items(*value)) {
      for (std::size_t i = 0; i < items->size(); ++i) visit((*items)[i], std::to_string(i));
    }
  }
  std::string keys;
  for (auto step = steps.find(&target); step != steps.end() && step->second.parent != nullptr;
       step = steps.find(step->second.parent)) {
    keys = keys.empty() ? step->second.key : step->second.key + "." + keys;
  }
  return keys;
}

std::string PhraseOfPlace(const pytorch::Value& root, const pytorch::Value& target) {
  const std::string keys = KeysTo(root, target);
  return keys.empty() ? "" : fmt::format(", `{}`", keys);
}

// Tensors that are not larger than this are read at once, and stand in the plan.
constexpr std::uint64_t kMostReadBytes = std::uint64_t{64} << 10;

// Strides of 0 let a tensor be larger than its storage: only what is not can be moved as it lies.
bool IsLarge(const SourceArchive& archive, const pytorch::Tensor& tensor) {
  const std::uint64_t storage_bytes = archive.archive.storages.at(tensor.storage->key).data.bytes;
  std::optional<std::int64_t> bytes = ItemBytes(tensor.dtype);
  for (const std::int64_t size : tensor.sizes) bytes = bytes ? CheckedMultiply(*bytes, size) : bytes;
  if (!bytes || *bytes == 0 || static_cast<std::uint64_t>(*bytes) > storage_bytes) return false;
  return static_cast<std::uint64_t>(*bytes) > kMostReadBytes || storage_bytes > pytorch::kLargestSmallTensorBytes;
}

}  // namespace

bool TensorPlace::IsSameMemory(const TensorPlace& other) const {
  return record == other.record && dtype == other.dtype && offset == other.offset && sizes == other.sizes &&
         strides == other.strides;
}

llvm::Expected<SourceArchive> SourceArchives::Open(const std::string& relative_path) {
  SourceArchive opened;
  opened.path = relative_path;
  const std::string path = JoinPath(folder_, relative_path);
  std::optional<ReadHeader> header = ahead_ == nullptr ? std::nullopt : ahead_->Take(path);
  if (!header) {
    llvm::Expected<ReadHeader> read = ReadHeaderOf(files_, path, cache_);
    if (!read && ahead_ != nullptr) {  // Those that are read ahead may have taken all files that may be open.
      llvm::consumeError(read.takeError());
      ahead_.reset();
      read = ReadHeaderOf(files_, path, cache_);
    }
    if (!read) return read.takeError();
    header = std::move(*read);
  }
  opened.readable = std::move(header->readable);
  opened.archive = std::move(header->archive);
  opened.small_tensors = std::make_unique<pytorch::SmallTensorReader>();
  opened.file = storage_.Add(StoredFile{relative_path, opened.readable->bytes(), std::move(header->hash)});
  return opened;
}

void SourceArchives::ReadAhead(const std::vector<std::string>& relative_paths, unsigned helpers) {
  constexpr unsigned kMostHelpers = 4;  // One thread takes what they read; more would only hold files open.
  helpers = std::min(helpers, kMostHelpers);
  if (helpers == 0) return;
  std::vector<std::string> paths;
  for (const std::string& path : relative_paths) paths.push_back(JoinPath(folder_, path));
  ahead_ = std::make_unique<ArchivesAhead>(files_, cache_, std::move(paths), helpers);
}

TensorPlace SourceArchives::PlaceOf(const SourceArchive& archive, const pytorch::Tensor& tensor) {
  const std::string& key = tensor.storage->key;
  const pytorch::StorageExtent& extent = archive.archive.storages.at(key);
  auto [entry, added] = records_.try_emplace({archive.file.value(), extent.data.offset});
  if (added) {
    entry->second = storage_.Add(Record{archive.file, extent.data.offset, extent.data.bytes, extent.crc32});
  }
  TensorPlace place;
  place.record = entry->second;
  place.record_elements = static_cast<std::int64_t>(extent.data.bytes) / ItemBytes(tensor.dtype);
  place.dtype = tensor.dtype;
  place.offset = tensor.offset;
  place.sizes = tensor.sizes;
  place.elements = 1;
  for (std::int64_t size : tensor.sizes) place.elements *= size;  // The archive reader checked that it fits.
  if (place.elements > 1 && tensor.strides != pytorch::ContiguousStrides(tensor.sizes)) {
    std::int64_t expected = 1;  // A stride along a dimension of one position means nothing.
    for (std::size_t d = tensor.sizes.size(); d-- > 0;) {
      if (tensor.sizes[d] != 1 && tensor.strides[d] != expected) place.strides = tensor.strides;
      expected *= tensor.sizes[d];
    }
  }
  return place;
}

llvm::Expected<std::vector<std::byte>> SourceArchives::ReadElements(const TensorPlace& place, std::int64_t first,
                                                                    std::int64_t count) const {
  const std::int64_t bytes = ItemBytes(place.dtype);
  const std::uint64_t begin =
      storage_.record(place.record).begin + static_cast<std::uint64_t>((place.offset + first) * bytes);
  std::vector<std::byte> read(static_cast<std::size_t>(count * bytes));
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file,
                       files_.OpenForReading(JoinPath(folder_, storage_.file(place.record).path)));
  UCP_RETURN_IF_ERROR(file->ReadAt(begin, read));
  return read;
}

BufferSetId SourceArchives::BuffersOf(const TensorPlace& place, const std::string& state) {
  auto [entry, added] = buffer_sets_[state].try_emplace({place.record.value(), static_cast<int>(place.dtype)});
  if (added) {
    Buffer buffer;
    buffer.dtype = place.dtype;
    buffer.part_elements = place.record_elements;
    buffer.parts.push_back({place.record, 0, place.record_elements});
    entry->second = storage_.Add(BufferSet{{state, storage_.Add(std::move(buffer))}});
  }
  return entry->second;
}

llvm::Error SourceArchives::CheckNoBareStorage(const SourceArchive& archive, const pytorch::Value& value,
                                               const std::string& what) {
  if (!HoldsBareStorage(value)) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "`{}`: {} holds a storage without a tensor, which cannot be carried over",
              archive.readable->path(), what);
}

llvm::Expected<pytorch::ValuePtr> SourceArchives::Keep(const SourceArchive& archive, const pytorch::ValuePtr& value,
                                                       const std::string& what) {
  UCP_RETURN_IF_ERROR(CheckNoBareStorage(archive, *value, what));
  llvm::Error failure = llvm::Error::success();
  auto read = [&](const pytorch::ValuePtr& found) -> pytorch::ValuePtr {
    if (failure) return found;
    const auto& tensor = *found->As<pytorch::Tensor>();
    llvm::Expected<std::string> key = IsLarge(archive, tensor)
                                          ? KeyOfLargeTensor(archive, tensor, KeysTo(*value, *found))
                                          : KeyOfSmallTensor(archive, tensor);
    if (!key) {
      failure = AddContext(key.takeError(), fmt::format("{}{}", what, PhraseOfPlace(*value, *found)));
      return found;
    }
    return pytorch::MakeWholeTensor(*key, tensor.dtype, tensor.sizes);
  };
  pytorch::ValuePtr kept = pytorch::ReplaceTensors(value, read);
  if (failure) return failure;
  return kept;
}

llvm::Expected<std::string> SourceArchives::KeyOfSmallTensor(const SourceArchive& archive,
                                                             const pytorch::Tensor& tensor) {
  UCP_ASSIGN_OR_RETURN(std::string bytes, archive.small_tensors->Read(*archive.readable, archive.archive, tensor));
  auto [entry, added] = small_tensor_keys_.try_emplace(fmt::format("{} {}", Name(tensor.dtype), bytes));
  if (added) entry->second = AddTensor(training_, SmallTensorData{tensor.dtype, std::move(bytes)});
  return entry->second;
}

std::string SourceArchives::KeyOfLargeTensor(const SourceArchive& archive, const pytorch::Tensor& tensor,
                                             const std::string& keys) {
  std::string name = fmt::format("{} in {}", keys, archive.path);
  if (!large_tensor_names_.insert(name).second) {  // A dot in a key looks like a step to the next.
    name += fmt::format(", {}", training_.large_tensors.size());
    large_tensor_names_.insert(name);
  }
  const TensorPlace place = PlaceOf(archive, tensor);
  return AddTensor(training_, MakeLargeTensor(std::move(name), place.dtype, place.sizes, place.strides,
                                              BuffersOf(place, kWeightState), place.offset));
}

}  // namespace ucp
