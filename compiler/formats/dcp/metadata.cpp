// Three tables make the metadata: what the state dict holds (`state_dict_metadata`), where each item lies
// (`storage_data`), and how keys were nested (`planner_data`). They are joined by the name of an entry and the offsets
// of a chunk. The objects in them are dataclasses: a class, and a dict of its attributes.
#include "compiler/formats/dcp/metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/ADT/DenseMap.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "compiler/formats/dcp/entries/check_chunks.h"
#include "compiler/formats/dcp/entries/check_names.h"
#include "compiler/formats/dcp/metadata_objects.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::dcp {
namespace {

using Id = PickleTree::Id;
using Kind = PickleTree::Kind;

constexpr std::size_t kMostDimensions = 64;  // As in PyTorch.

llvm::Error RefuseMegatron(std::string_view why) {
  return Fail(ErrorCode::kUnsupported,
              "it was saved by Megatron Core ({}), whose checkpoints have `metadata.json` beside it; copy the whole "
              "folder",
              why);
}

constexpr std::string_view kShapeInModel = "nd_reformulated_orig_global_shape";
constexpr std::string_view kPackedByZstd = "`stream.zstd/1`";  // As a message has it.

constexpr std::array<std::string_view, 3> kPartsOfPlace = {"relative_path", "offset", "length"};

// In messages, which are made when there is one: there may be a million places.
std::string PlaceText(std::string_view key) { return fmt::format("the place of `{}`", key); }

// The place of a chunk, as the table of places has it.
struct Placed {
  Extents offsets;
  bool has_offsets = false;
  ItemPlace place;
};

// PyTorch lists the places of an entry as it lists its chunks, by rising ranks: such places go into the chunks at once.
class PlacesOfEntry {
 public:
  void Add(Entry& entry, Placed placed) {
    if (others_.empty() && entry.is_tensor && taken_ < entry.chunks.size()) {
      Chunk& next = entry.chunks[taken_];
      const bool is_later = taken_ == 0 || entry.chunks[taken_ - 1].offsets < placed.offsets;
      if (is_later && next.offsets == placed.offsets) {
        next.place = placed.place;
        ++taken_;
        return;
      }
    }
    others_.push_back(std::move(placed));
  }

  // Whether each chunk has its place.
  bool AreInOrder(const Entry& entry) const { return others_.empty() && taken_ == entry.chunks.size(); }

  // Returns them all.
  std::vector<Placed> Take(const Entry& entry) {
    for (std::size_t i = 0; i < taken_; ++i) others_.push_back({entry.chunks[i].offsets, true, entry.chunks[i].place});
    return std::move(others_);
  }

 private:
  std::size_t taken_ = 0;       // So many chunks have theirs.
  std::vector<Placed> others_;  // From the first one on that is not the next chunk's.
};

class Joiner {
 public:
  Joiner(const PickleTree& tree, std::size_t pickle_bytes, MetadataOf of)
      : tree_(tree), objects_(tree), pickle_bytes_(pickle_bytes), of_(of) {}

  llvm::Expected<Metadata> Run() {
    UCP_RETURN_IF_ERROR(CheckRoot());
    UCP_ASSIGN_OR_RETURN(const Id entries, objects_.Attribute(tree_.root(), "state_dict_metadata", "the metadata"));
    UCP_RETURN_IF_ERROR(ReadEntries(entries));
    UCP_ASSIGN_OR_RETURN(const Id places, objects_.Attribute(tree_.root(), "storage_data", "the metadata"));
    UCP_RETURN_IF_ERROR(ReadPlaces(places));
    for (std::size_t i = 0; i < result_.entries.size(); ++i) UCP_RETURN_IF_ERROR(TakePlaces(i));
    if (const auto paths = objects_.FindAttribute(tree_.root(), "planner_data")) ReadPaths(*paths);
    if (of_ == MetadataOf::kMegatron) UCP_RETURN_IF_ERROR(ReadShapesInModel());
    for (const Entry& entry : result_.entries) UCP_RETURN_IF_ERROR(CheckDepth(entry));
    return std::move(result_);
  }

 private:
  llvm::Error CheckRoot() const {
    const auto megatron = objects_.ClassOfMegatron(tree_.root());
    if (of_ == MetadataOf::kMegatron && megatron) return llvm::Error::success();
    if (megatron) return RefuseMegatron(*megatron);
    if (!objects_.Is(tree_.root(), "Metadata")) {
      return objects_.Unexpected("it", tree_.root(), "torch.distributed.checkpoint.metadata.Metadata");
    }
    const bool is_refused = of_ != MetadataOf::kMegatron && objects_.FindAttribute(tree_.root(), "mcore_data");
    return is_refused ? RefuseMegatron("mcore_data") : llvm::Error::success();
  }

  // `mcore_data`: for each key a dict, in which stands the shape of a tensor that was stored in another.
  llvm::Error ReadShapesInModel() {
    const auto data = objects_.FindAttribute(tree_.root(), "mcore_data");
    if (!data || tree_.IsNone(*data)) return llvm::Error::success();
    return ForEachEntry(*data, "`mcore_data`", [&](Id key, Id value) -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(const std::string_view name, objects_.NeedText(key, "a key of `mcore_data`"));
      return ForEachEntry(value, "an entry of `mcore_data`", [&](Id word, Id shape) -> llvm::Error {
        if (tree_.Text(word) != kShapeInModel) return llvm::Error::success();
        UCP_ASSIGN_OR_RETURN(const Extents extents,
                             objects_.NeedExtentsOf(shape, fmt::format("the shape of `{}`", name)));
        UCP_RETURN_IF_ERROR(CheckDimensions(extents, name));
        result_.shapes_in_model.emplace(name, std::vector<std::int64_t>(extents.begin(), extents.end()));
        return llvm::Error::success();
      });
    });
  }

  // Calls `visit` for the entries of a dict until one fails.
  llvm::Error ForEachEntry(Id dict, std::string_view what,
                           llvm::function_ref<llvm::Error(Id key, Id value)> visit) const {
    if (tree_.kind(dict) != Kind::kDict) return objects_.Unexpected(what, dict, "a dict");
    llvm::Error failure = llvm::Error::success();
    tree_.ForEachEntry(dict, [&](Id key, Id value) {
      if (!failure) failure = visit(key, value);
      return !failure;
    });
    return failure;
  }

  llvm::Error ReadEntries(Id dict) {
    UCP_RETURN_IF_ERROR(
        ForEachEntry(dict, "`state_dict_metadata`", [&](Id key, Id value) { return ReadEntry(key, value); }));
    // The entries stay where they are from here on.
    for (std::size_t i = 0; i < result_.entries.size(); ++i) {
      if (number_of_key_.emplace(result_.entries[i].key, i).second) continue;
      return Fail(ErrorCode::kBadData, "`state_dict_metadata` has two entries `{}`", result_.entries[i].key);
    }
    return llvm::Error::success();
  }

  llvm::Error ReadEntry(Id key, Id value) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_ASSIGN_OR_RETURN(const std::string_view text, objects_.NeedText(key, "a key of `state_dict_metadata`"));
    UCP_RETURN_IF_ERROR(CheckKey(text));
    Entry& read = result_.entries.emplace_back();
    read.key = text;
    read.path = {read.key};
    read.saved = result_.entries.size() - 1;
    if (objects_.Is(value, "TensorStorageMetadata")) return ReadTensor(value, read);
    if (objects_.Is(value, "BytesStorageMetadata")) {
      read.chunks.emplace_back();
      return llvm::Error::success();
    }
    return objects_.Unexpected(fmt::format("`{}` in `state_dict_metadata`", read.key), value,
                               "TensorStorageMetadata or BytesStorageMetadata");
  }

  // A pickle can name one object any number of times. PyTorch writes one for each chunk, of 40 bytes at least.
  llvm::Error CountChunk(const Chunk& chunk) {
    numbers_read_ += 1 + chunk.offsets.size() + chunk.sizes.size();
    if (numbers_read_ <= pickle_bytes_) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "its {} bytes describe more than {} numbers of chunks", pickle_bytes_,
                pickle_bytes_);
  }

  static llvm::Error CheckDimensions(const Extents& extents, std::string_view key) {
    if (extents.size() <= kMostDimensions) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "`{}` is described by {} dimensions, and tensors have {} at most", key,
                extents.size(), kMostDimensions);
  }

  llvm::Error ReadTensor(Id tensor, Entry& read) {
    read.is_tensor = true;
    const std::string what = fmt::format("`{}`", read.key);
    UCP_ASSIGN_OR_RETURN(read.dtype, objects_.DTypeOf(tensor, what));
    UCP_ASSIGN_OR_RETURN(const Extents shape, objects_.NeedExtents(tensor, "size", what));
    UCP_RETURN_IF_ERROR(CheckDimensions(shape, read.key));
    read.shape.assign(shape.begin(), shape.end());
    UCP_ASSIGN_OR_RETURN(const Id chunks, objects_.Attribute(tensor, "chunks", what));
    if (tree_.kind(chunks) != Kind::kList) {
      return objects_.Unexpected(fmt::format("`chunks` of {}", what), chunks, "a list");
    }
    if (tree_.Count(chunks) > pickle_bytes_ - std::min(numbers_read_, pickle_bytes_)) {
      return Fail(ErrorCode::kBadData, "its {} bytes describe {} chunks of {} and others", pickle_bytes_,
                  tree_.Count(chunks), what);
    }
    read.chunks.reserve(tree_.Count(chunks));
    std::vector<Id> ids;
    tree_.ForEach(chunks, [&](Id id) {
      ids.push_back(id);
      return true;
    });
    for (const Id id : ids) {
      if (!objects_.Is(id, "ChunkStorageMetadata")) {
        return objects_.Unexpected(fmt::format("a chunk of {}", what), id, "ChunkStorageMetadata");
      }
      Chunk& added = read.chunks.emplace_back();
      UCP_ASSIGN_OR_RETURN(added.offsets, objects_.NeedExtents(id, "offsets", what));
      UCP_ASSIGN_OR_RETURN(added.sizes, objects_.NeedExtents(id, "sizes", what));
      UCP_RETURN_IF_ERROR(CheckDimensions(added.offsets, read.key));
      UCP_RETURN_IF_ERROR(CheckDimensions(added.sizes, read.key));
      UCP_RETURN_IF_ERROR(CountChunk(added));
    }
    return llvm::Error::success();
  }

  llvm::Error ReadPlaces(Id dict) {
    places_.resize(result_.entries.size());
    return ForEachEntry(dict, "`storage_data`", [&](Id key, Id value) { return ReadPlace(key, value); });
  }

  llvm::Error ReadPlace(Id index, Id value) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    if (!objects_.Is(index, "MetadataIndex")) {
      return objects_.Unexpected("a key of `storage_data`", index, "MetadataIndex");
    }
    UCP_ASSIGN_OR_RETURN(const Id name, objects_.Attribute(index, "fqn", "a key of `storage_data`"));
    UCP_ASSIGN_OR_RETURN(const std::optional<std::size_t> number, EntryOf(name));
    if (!number) return llvm::Error::success();  // No entry has it: nobody reads it.
    Entry& entry = result_.entries[*number];
    Placed placed;
    const auto offset = objects_.FindAttribute(index, "offset");
    placed.has_offsets = offset && !tree_.IsNone(*offset);
    if (placed.has_offsets) {
      UCP_ASSIGN_OR_RETURN(placed.offsets, objects_.NeedExtents(index, "offset", entry.key));
    }
    UCP_ASSIGN_OR_RETURN(placed.place, PlaceOf(value, entry.key));
    places_[*number].Add(entry, std::move(placed));
    return llvm::Error::success();
  }

  llvm::Expected<ItemPlace> PlaceOf(Id info, std::string_view key) {
    if (!objects_.Is(info, "_StorageInfo")) {
      return objects_.Unexpected(PlaceText(key), info, "torch.distributed.checkpoint.filesystem._StorageInfo");
    }
    UCP_ASSIGN_OR_RETURN(const bool is_packed, IsPacked(info, key));
    std::array<Id, 3> parts{};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto found = objects_.FindAttribute(info, kPartsOfPlace[i]);
      if (!found) {
        return Fail(ErrorCode::kBadData, "{} has no attribute `{}`", PlaceText(key), kPartsOfPlace[i]);
      }
      parts[i] = *found;
    }
    const auto [path, offset, length] = parts;
    UCP_ASSIGN_OR_RETURN(const std::uint32_t file, FileOf(path, key));
    const auto begin = tree_.Integer(offset);
    const auto bytes = tree_.Integer(length);
    if (!begin || !bytes || *begin < 0 || *bytes <= 0) {
      return Fail(ErrorCode::kBadData, "{} is {} bytes from {} on of `{:.200}`, which is not a part of a file",
                  PlaceText(key), objects_.Called(length), objects_.Called(offset), result_.files[file]);
    }
    return ItemPlace{.file = file,
                     .offset = static_cast<std::uint64_t>(*begin),
                     .bytes = static_cast<std::uint64_t>(*bytes),
                     .is_packed = is_packed};
  }

  llvm::Expected<bool> IsPacked(Id info, std::string_view key) const {
    const auto transforms = objects_.FindAttribute(info, "transform_descriptors");
    if (!transforms || tree_.IsNone(*transforms)) return false;
    std::string names;
    if (tree_.kind(*transforms) == Kind::kList) {
      if (tree_.Count(*transforms) == 0) return false;
      tree_.ForEach(*transforms, [&](Id id) {
        names += (names.empty() ? "" : ", ") + objects_.Called(id);
        return names.size() < 80;
      });
    }
    if (names == kPackedByZstd) return true;
    return Fail(ErrorCode::kUnsupported,
                "`{}` was transformed by {} when it was saved, and items are read as torch.save writes them or packed "
                "by {}; load it with PyTorch and save it again without `_extensions`",
                key, names.empty() ? objects_.Called(*transforms) : names, kPackedByZstd);
  }

  // Texts that occur often are one value of the pickle.
  llvm::Expected<std::optional<std::size_t>> EntryOf(Id name) {
    if (const auto known = entry_of_name_.find(name); known != entry_of_name_.end()) return known->second;
    UCP_ASSIGN_OR_RETURN(const std::string_view text, objects_.NeedText(name, "`fqn` of a key of `storage_data`"));
    const auto found = number_of_key_.find(text);
    const auto number = found == number_of_key_.end() ? std::nullopt : std::optional(found->second);
    entry_of_name_.try_emplace(name, number);
    return number;
  }

  llvm::Expected<std::uint32_t> FileOf(Id path, std::string_view key) {
    if (const auto known = file_of_path_.find(path); known != file_of_path_.end()) return known->second;
    auto text = objects_.NeedText(path, "`relative_path`");
    if (!text) return AddContext(text.takeError(), PlaceText(key));
    UCP_RETURN_IF_ERROR(CheckFilePath(*text, key));
    const auto [number, is_new] = number_of_file_.try_emplace(*text, static_cast<std::uint32_t>(result_.files.size()));
    if (is_new) result_.files.emplace_back(*text);
    file_of_path_.try_emplace(path, number->second);
    return number->second;
  }

  llvm::Error TakePlaces(std::size_t number) {
    Entry& entry = result_.entries[number];
    if (entry.is_tensor && places_[number].AreInOrder(entry)) {
      return of_ != MetadataOf::kOneRank ? TakeChunks(entry) : llvm::Error::success();  // Else when all are known.
    }
    std::vector<Placed> placed = places_[number].Take(entry);
    if (!std::ranges::is_sorted(placed, {}, &Placed::offsets)) std::ranges::sort(placed, {}, &Placed::offsets);
    const auto twice =
        std::ranges::adjacent_find(placed, [](const Placed& a, const Placed& b) { return a.offsets == b.offsets; });
    if (twice != placed.end()) {
      return Fail(ErrorCode::kBadData, "`storage_data` has two places for `{}` at [{}]", entry.key,
                  fmt::join(twice->offsets, ", "));
    }
    if (!entry.is_tensor) {
      if (placed.size() == 1 && !placed.front().has_offsets) {
        entry.chunks.front().place = placed.front().place;
        return llvm::Error::success();
      }
      return Fail(ErrorCode::kBadData, "`storage_data` has {} places for the value `{}`, which has one", placed.size(),
                  entry.key);
    }
    for (Chunk& chunk : entry.chunks) {
      const auto found = std::ranges::lower_bound(placed, chunk.offsets, {}, &Placed::offsets);
      if (found != placed.end() && found->offsets == chunk.offsets) chunk.place = found->place;
    }
    return of_ != MetadataOf::kOneRank ? TakeChunks(entry) : llvm::Error::success();
  }

  // Planners of others may store anything there.
  void ReadPaths(Id dict) {
    if (tree_.kind(dict) != Kind::kDict) return;
    std::vector<std::size_t> order;
    std::vector<char> seen(result_.entries.size(), 0);
    std::vector<std::vector<PathPart>> paths(result_.entries.size());
    tree_.ForEachEntry(dict, [&](Id key, Id value) {
      const auto text = tree_.Text(key);
      const auto number = text ? number_of_key_.find(*text) : number_of_key_.end();
      auto path = objects_.AsPath(value);
      if (number == number_of_key_.end() || !path || seen[number->second] != 0) return true;
      seen[number->second] = 1;
      paths[number->second] = *std::move(path);
      order.push_back(number->second);
      return true;
    });
    if (!order.empty() && order.size() == result_.entries.size()) TakeOrder(order, paths);
  }

  void TakeOrder(const std::vector<std::size_t>& order, std::vector<std::vector<PathPart>>& paths) {
    result_.has_paths = true;
    std::vector<Entry> sorted;
    sorted.reserve(order.size());
    for (const std::size_t number : order) {
      result_.entries[number].path = std::move(paths[number]);
      sorted.push_back(std::move(result_.entries[number]));
    }
    result_.entries = std::move(sorted);
  }

  const PickleTree& tree_;
  const MetadataObjects objects_;
  const std::size_t pickle_bytes_;
  const MetadataOf of_;
  std::size_t numbers_read_ = 0;  // Of chunks, and one for each chunk.
  Metadata result_;
  std::unordered_map<std::string_view, std::size_t> number_of_key_;
  std::unordered_map<std::string_view, std::uint32_t> number_of_file_;  // Of texts of the pickle.
  llvm::DenseMap<Id, std::optional<std::size_t>> entry_of_name_;
  llvm::DenseMap<Id, std::uint32_t> file_of_path_;
  std::vector<PlacesOfEntry> places_;  // By entry.
};

}  // namespace

llvm::Expected<Metadata> ReadMetadata(std::string_view pickle, MetadataOf of) {
  if (pickle.size() > kMostMetadataBytes) {
    return Fail(ErrorCode::kUnsupported, "it has {} bytes, more than the {} that are read", pickle.size(),
                kMostMetadataBytes);
  }
  UCP_ASSIGN_OR_RETURN(const PickleTree tree, PickleTree::Read(pickle));
  return Joiner(tree, pickle.size(), of).Run();
}

}  // namespace ucp::dcp
