// Every tensor of a header is a record of its file and a shard with one state. Where the states of an optimizer stand
// beside the model, as this project writes them, their entries are named "<tensor>.<state>".
#include "compiler/formats/safetensors/read.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "compiler/files/lfs_pointer.h"
#include "compiler/formats/safetensors/file_names.h"
#include "compiler/formats/safetensors/header.h"
#include "compiler/formats/safetensors/index.h"
#include "compiler/formats/safetensors/sharded.h"
#include "compiler/formats/safetensors/torch_files.h"
#include "compiler/formats/safetensors/training_file.h"
#include "compiler/layout/layout.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::safetensors {
namespace {

std::string NameOf(const std::string& path) { return std::filesystem::path(path).filename().string(); }

bool IsModelFile(const std::string& path) {
  return path.ends_with(kSuffix) || path.ends_with(kIndexSuffix) || IsTorchName(NameOf(path));
}

std::string FolderAround(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

llvm::Expected<bool> IsFile(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
  return kind == PathKind::kFile;
}

struct ModelFiles {
  bool single = false;
  bool index = false;
};

llvm::Expected<ModelFiles> FindFiles(ReadableFileSystem& files, const std::string& folder, std::string_view stem) {
  ModelFiles found;
  UCP_ASSIGN_OR_RETURN(found.single, IsFile(files, JoinPath(folder, SingleFile(stem))));
  UCP_ASSIGN_OR_RETURN(found.index, IsFile(files, JoinPath(folder, IndexFile(stem))));
  return found;
}

llvm::Error RefuseBoth(const std::string& folder, std::string_view stem) {
  return Fail(ErrorCode::kBadData, "`{}` holds both `{}` and `{}`, which are two models; name the file that is meant",
              folder, SingleFile(stem), IndexFile(stem));
}

// Another model's file may stand beside those of the folder's own, which the index lists where there is one.
llvm::Expected<bool> BelongsToModel(ReadableFileSystem& files, const std::string& folder, const std::string& name) {
  for (std::string_view stem : {kModelStem, kOptimizerStem}) {
    if (name == SingleFile(stem) || name == IndexFile(stem)) return true;
    const std::string path = JoinPath(folder, IndexFile(stem));
    UCP_ASSIGN_OR_RETURN(bool has_index, IsFile(files, path));
    if (!has_index) continue;
    UCP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, path, kMostIndexBytes));
    llvm::Expected<Index> index = ParseIndex(text);
    if (!index) return AddContext(index.takeError(), fmt::format("`{}`", path));
    for (const auto& [tensor, file] : index->file_of_tensor) {
      if (file == name) return true;
    }
  }
  return false;
}

// The names of the files in which ranks saved their parts, in order.
llvm::Expected<std::vector<std::string>> ShardFiles(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, files.List(folder));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_directory && IsRankFile(entry.name)) names.push_back(entry.name);
  }
  return names;
}

struct Place {
  RecordId record;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
};

class Description {
 public:
  Description(ReadableFileSystem& files, std::string root, std::span<const FormatStateReader> readers)
      : files_(files), root_(std::move(root)), readers_(readers) {
    inventory().format = "safetensors";
    inventory().cuts = WholeTensors{};
    inventory().root = root_;
  }

  // `name` is a file or an index; nothing: what a folder holds.
  llvm::Expected<Checkpoint> Run(const std::optional<std::string>& name) {
    UCP_ASSIGN_OR_RETURN(const bool is_sharded, IsSharded(name));
    UCP_ASSIGN_OR_RETURN(const std::optional<std::string> torch, TorchModelIn(name));
    if (is_sharded) {
      UCP_RETURN_IF_ERROR(ReadSharded());
    } else if (torch) {
      UCP_RETURN_IF_ERROR(AddTorchModel(files_, root_, *torch, checkpoint_));
    } else {
      UCP_ASSIGN_OR_RETURN(model_, name ? ReadNamed(*name) : ReadStem(kModelStem));
      if (!name) UCP_RETURN_IF_ERROR(ReadOptimizer());
    }
    if (checkpoint_.training.ranks.empty()) checkpoint_.training.ranks.emplace_back();
    AddShards();
    return std::move(checkpoint_);
  }

 private:
  using Places = std::map<std::string, Place>;

  Inventory& inventory() { return checkpoint_.inventory; }

  // A model that was put together from the ranks' files comes before these.
  llvm::Expected<bool> IsSharded(const std::optional<std::string>& name) {
    if (name) return false;
    UCP_ASSIGN_OR_RETURN(rank_files_, ShardFiles(files_, root_));
    UCP_ASSIGN_OR_RETURN(const ModelFiles found, FindFiles(files_, root_, kModelStem));
    if (rank_files_.empty() || (!found.single && !found.index)) return !rank_files_.empty();
    inventory().remarks.push_back(
        fmt::format("`{}` also holds {} files of single ranks (first `{}`); they are not read", root_,
                    rank_files_.size(), rank_files_.front()));
    return false;
  }

  // A `.safetensors` model of the same folder comes before it, as for Hugging Face's loaders.
  llvm::Expected<std::optional<std::string>> TorchModelIn(const std::optional<std::string>& name) {
    if (name) return IsTorchName(*name) ? name : std::nullopt;
    UCP_ASSIGN_OR_RETURN(const ModelFiles found, FindFiles(files_, root_, kModelStem));
    if (found.single || found.index) return std::nullopt;
    return FindTorchModel(files_, root_);
  }

  llvm::Error ReadSharded() {
    std::map<std::string, std::vector<SavedBox>> boxes;
    for (const std::string& name : rank_files_) {
      UCP_ASSIGN_OR_RETURN(Places places, ReadFile(name));
      UCP_ASSIGN_OR_RETURN(const Begins begins, BeginsIn(name));
      for (auto& [tensor, place] : places) {
        const auto begin = begins.find(tensor);
        if (begin == begins.end()) {
          return Fail(ErrorCode::kBadData, "`{}` holds tensor `{}`, and its `{}` does not say where that begins",
                      JoinPath(root_, name), tensor, kShardingKey);
        }
        boxes[tensor].push_back({name, place.record, place.dtype, begin->second, std::move(place.shape)});
      }
    }
    inventory().cuts = BoxesOfTensors();
    std::int64_t most = 1;
    for (auto& [tensor, of_tensor] : boxes) {
      auto shape = JoinBoxes(tensor, of_tensor);
      if (!shape) return AddContext(shape.takeError(), fmt::format("`{}`", root_));
      AddBoxes(tensor, *shape, of_tensor, inventory());
      most = std::max(most, std::ssize(of_tensor));
    }
    inventory().mesh.axes = {{kBoxAxis, most}};
    inventory().remarks.push_back(
        fmt::format("the {} files do not say how large the tensors are: each reaches as far as its parts do, and a "
                    "last rank whose files are missing is not noticed",
                    rank_files_.size()));
    return llvm::Error::success();
  }

  llvm::Expected<Begins> BeginsIn(const std::string& name) {
    const auto info = metadata_of_last_.find(std::string(kShardingKey));
    if (info == metadata_of_last_.end()) {
      return Fail(ErrorCode::kBadData, "`{}` is named as a rank's part of a model, and has no `{}` in its metadata",
                  JoinPath(root_, name), kShardingKey);
    }
    auto begins = ParseShardingInfo(info->second);
    if (begins) return begins;
    return AddContext(begins.takeError(), fmt::format("`{}` in `{}`", kShardingKey, JoinPath(root_, name)));
  }

  // PyTorch's writer puts the places of tensors also into files of whole tensors.
  llvm::Error CheckWhole(const std::string& name) {
    if (!metadata_of_last_.contains(std::string(kShardingKey))) return llvm::Error::success();
    UCP_ASSIGN_OR_RETURN(const Begins begins, BeginsIn(name));
    for (const auto& [tensor, begin] : begins) {
      if (std::ranges::all_of(begin, [](std::int64_t position) { return position == 0; })) continue;
      return Fail(ErrorCode::kUnsupported,
                  "`{}` holds the part of `{}` that begins at [{}], and not the whole tensor; name a folder with the "
                  "files of all ranks, called `shard-00001-model-00001-of-00001{}` and so on",
                  JoinPath(root_, name), tensor, fmt::join(begin, ", "), kSuffix);
    }
    return llvm::Error::success();
  }

  llvm::Expected<Places> ReadStem(std::string_view stem) {
    UCP_ASSIGN_OR_RETURN(ModelFiles found, FindFiles(files_, root_, stem));
    if (found.single && found.index) return RefuseBoth(root_, stem);
    return ReadNamed(found.index ? IndexFile(stem) : SingleFile(stem));
  }

  llvm::Expected<Places> ReadNamed(const std::string& name) {
    return name.ends_with(kIndexSuffix) ? ReadIndexed(name) : ReadWhole(name);
  }

  llvm::Expected<Places> ReadIndexed(const std::string& name) {
    const std::string path = JoinPath(root_, name);
    UCP_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(files_, path, kMostIndexBytes));
    llvm::Expected<Index> index = ParseIndex(text);
    if (!index) return AddContext(index.takeError(), fmt::format("`{}`", path));
    std::map<std::string, Places> places_of_file;
    Places places;
    for (const auto& [tensor, file] : index->file_of_tensor) {
      auto [entry, added] = places_of_file.try_emplace(file);
      if (added) {
        UCP_ASSIGN_OR_RETURN(entry->second, ReadWhole(file));
      }
      auto place = entry->second.find(tensor);
      if (place == entry->second.end()) {
        return Fail(ErrorCode::kBadData, "`{}` puts tensor `{}` into `{}`, which does not hold it", path, tensor, file);
      }
      places.insert(entry->second.extract(place));
    }
    for (const auto& [file, left] : places_of_file) {
      if (left.empty()) continue;
      inventory().remarks.push_back(
          fmt::format("`{}` also holds {} tensors (first `{}`) that `{}` does not list; they "
                      "are not read",
                      file, left.size(), left.begin()->first, name));
    }
    return places;
  }

  llvm::Expected<Places> ReadWhole(const std::string& name) {
    UCP_ASSIGN_OR_RETURN(Places places, ReadFile(name));
    UCP_RETURN_IF_ERROR(CheckWhole(name));
    return places;
  }

  llvm::Expected<Places> ReadFile(const std::string& name) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const std::string path = JoinPath(root_, name);
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_.OpenForReading(path));
    auto context = [&](llvm::Error error) { return AddContext(std::move(error), fmt::format("header of `{}`", path)); };
    std::array<std::byte, kLengthBytes> length_bytes{};
    if (file->bytes() < kLengthBytes) {
      return context(Fail(ErrorCode::kBadData, "the file has {} bytes, and a length alone takes 8", file->bytes()));
    }
    UCP_RETURN_IF_ERROR(file->ReadAt(0, length_bytes));
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(length_bytes[i]) << (8 * i);
    const std::uint64_t room = file->bytes() - kLengthBytes;
    if (length > kMostHeaderBytes || length > room) {
      UCP_RETURN_IF_ERROR(RefuseLfsPointer(*file));
      return context(Fail(ErrorCode::kBadData, "it should have {} bytes; the most is {}, and the file has {} behind it",
                          length, kMostHeaderBytes, room));
    }
    std::string json(length, '\0');
    UCP_RETURN_IF_ERROR(file->ReadAt(kLengthBytes, std::as_writable_bytes(std::span(json))));
    llvm::Expected<Header> header = ParseHeader(json, room - length);
    if (!header) return context(header.takeError());
    const FileId id = inventory().storage.Add(StoredFile{name, file->bytes(), ContentHash(json)});
    Places places;
    for (HeaderEntry& entry : header->entries) {
      Place place{RecordId(0), entry.dtype, std::move(entry.shape), 1};
      place.record = inventory().storage.Add(
          Record{id, kLengthBytes + length + entry.begin, entry.end - entry.begin, std::nullopt});
      for (std::int64_t size : place.shape) place.elements *= size;
      places.emplace(std::move(entry.name), std::move(place));
    }
    metadata_of_last_ = std::move(header->metadata);
    return places;
  }

  // The states that `states=all` wrote beside the model.
  llvm::Error ReadOptimizer() {
    UCP_ASSIGN_OR_RETURN(ModelFiles found, FindFiles(files_, root_, kOptimizerStem));
    UCP_ASSIGN_OR_RETURN(bool has_training_file, IsFile(files_, JoinPath(root_, std::string(kTrainingStateFile))));
    if (!found.single && !found.index) return llvm::Error::success();
    if (!has_training_file) {
      inventory().remarks.push_back(
          fmt::format("the states of an optimizer stand beside the model without `{}`, which says what belongs to "
                      "them; they are not read",
                      kTrainingStateFile));
      return llvm::Error::success();
    }
    UCP_ASSIGN_OR_RETURN(buffers_, ReadTrainingFile(files_, root_, readers_, checkpoint_));
    UCP_ASSIGN_OR_RETURN(Places places, ReadStem(kOptimizerStem));
    for (auto& [entry, place] : places) {
      const std::size_t dot = entry.rfind('.');
      auto tensor = model_.find(entry.substr(0, dot));
      if (dot == std::string::npos || tensor == model_.end() || tensor->second.shape != place.shape) {
        return Fail(ErrorCode::kBadData, "`{}`: `{}` of the optimizer is not a state of one of the model's {} tensors",
                    root_, entry, model_.size());
      }
      states_[tensor->first].emplace(entry.substr(dot + 1), std::move(place));
    }
    return llvm::Error::success();
  }

  void AddShards() {
    for (const auto& [name, place] : model_) {
      auto states = states_.find(name);
      const bool is_trained = states != states_.end();
      TensorKind kind = is_trained ? TensorKind::kParameter : TensorKind::kFrozen;
      if (buffers_.contains(name)) kind = TensorKind::kBuffer;
      AddShard(name, kind, place.shape, {{kWeightState, AddBuffer(place)}});
      if (!is_trained) continue;
      BufferSet set;
      for (const auto& [state, of_state] : states->second) set.push_back({state, AddBuffer(of_state)});
      AddShard(name, kind, place.shape, std::move(set));
    }
  }

  BufferId AddBuffer(const Place& place) {
    return inventory().storage.Add(Buffer{place.dtype, place.elements, {{place.record, 0, place.elements}}});
  }

  void AddShard(const std::string& name, TensorKind kind, const std::vector<std::int64_t>& shape, BufferSet set) {
    Shard shard;
    shard.tensor = name;
    shard.kind = kind;
    shard.shape = shape;
    shard.states = inventory().storage.Add(std::move(set));
    inventory().storage.shards.push_back(std::move(shard));
  }

  ReadableFileSystem& files_;
  const std::string root_;
  const std::span<const FormatStateReader> readers_;
  Checkpoint checkpoint_;
  std::vector<std::string> rank_files_;
  std::map<std::string, std::string> metadata_of_last_;  // Of the file that was read last.
  Places model_;
  std::map<std::string, Places> states_;  // By tensor.
  std::set<std::string> buffers_;
};

}  // namespace

llvm::Expected<bool> IsModel(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(ModelFiles found, FindFiles(files, folder, kModelStem));
  if (found.single || found.index) return true;
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> rank_files, ShardFiles(files, folder));
  if (!rank_files.empty()) return true;
  llvm::Expected<std::optional<std::string>> torch = FindTorchModel(files, folder);
  if (torch) return torch->has_value();
  FailureText failure = TakeFailure(torch.takeError());
  if (failure.code != ErrorCode::kIo) return true;  // Of two models one is to be named.
  return MakeError(failure.code, std::move(failure.message));
}

llvm::Expected<std::optional<std::string>> ModelMeantBy(ReadableFileSystem& files, const std::string& path) {
  if (!IsModelFile(path)) return std::nullopt;
  const std::string around = FolderAround(path);
  if (IsRankFile(NameOf(path))) return around;
  if (IsTorchName(NameOf(path))) return path;
  UCP_ASSIGN_OR_RETURN(ModelFiles found, FindFiles(files, around, kModelStem));
  if (found.single == found.index) return path;
  UCP_ASSIGN_OR_RETURN(bool belongs, BelongsToModel(files, around, NameOf(path)));
  return belongs ? around : path;
}

llvm::Expected<Checkpoint> DescribeModel(ReadableFileSystem& files, const std::string& path,
                                         std::span<const FormatStateReader> readers) {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
  if (kind == PathKind::kDirectory) return Description(files, path, readers).Run(std::nullopt);
  return Description(files, FolderAround(path), readers).Run(NameOf(path));
}

}  // namespace ucp::safetensors
