// `metadata.pkl` names the items whose tensors ranks share, with their files. All other items have a file of each rank
// that saved them, which only its name shows.
#include "compiler/formats/dcp/torch_checkpointing/read.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

#include "compiler/formats/dcp/entries/describe_entries.h"
#include "compiler/formats/dcp/torch_checkpointing/rank_files.h"
#include "compiler/formats/dcp/torch_checkpointing/rank_metadata.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

constexpr std::uint64_t kMostBytesOfPickle = std::uint64_t{1} << 30;

struct NameOfFile {
  std::string item;
  std::int64_t rank = 0;
};

// Of "model_12.pt"; nothing of other names.
std::optional<NameOfFile> ReadName(std::string_view name) {
  constexpr std::string_view kEnding = ".pt";
  if (!name.ends_with(kEnding)) return std::nullopt;
  name.remove_suffix(kEnding.size());
  const std::size_t line = name.rfind('_');
  if (line == std::string_view::npos || line == 0) return std::nullopt;
  NameOfFile read{std::string(name.substr(0, line)), 0};
  name.remove_prefix(line + 1);
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), read.rank);
  const bool is_rank = error == std::errc() && end == name.data() + name.size() && fmt::to_string(read.rank) == name;
  return is_rank && read.rank >= 0 ? std::optional(std::move(read)) : std::nullopt;
}

class RankedFolder {
 public:
  RankedFolder(ReadableFileSystem& files, const std::string& folder) : files_(files), folder_(folder) {}

  llvm::Expected<Checkpoint> Describe(const RankPreference& preference, const std::string& tag) {
    checkpoint_.inventory.root = folder_;
    checkpoint_.inventory.preference = preference;
    checkpoint_.training.tag = tag;
    UCP_RETURN_IF_ERROR(ReadMetadataFile());
    RankFiles items(files_, folder_, metadata_, checkpoint_);
    UCP_RETURN_IF_ERROR(FindFiles());
    for (const FilesOfItem& item : items_) UCP_RETURN_IF_ERROR(items.Add(item));
    auto entries = items.TakeEntries();
    if (!entries) return AddContext(entries.takeError(), fmt::format("`{}`", folder_));
    StateDict state;
    state.name = folder_;
    state.origin = kTorchCheckpointingFile;
    state.entries = *entries;
    state.has_paths = true;
    UCP_RETURN_IF_ERROR(DescribeEntries(state, items, checkpoint_));
    return std::move(checkpoint_);
  }

 private:
  llvm::Error ReadMetadataFile() {
    const std::string path = JoinPath(folder_, kTorchCheckpointingFile);
    UCP_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(files_, path, kMostBytesOfPickle));
    auto read = ReadRankMetadata(bytes);
    if (!read) return AddContext(read.takeError(), fmt::format("`{}`", path));
    metadata_ = *std::move(read);
    checkpoint_.inventory.storage.Add(StoredFile{kTorchCheckpointingFile, bytes.size(), ContentHash(bytes)});
    return llvm::Error::success();
  }

  llvm::Error FindFiles() {
    std::set<std::string> known = {kTorchCheckpointingFile};
    for (const RankItem& item : metadata_.items) {
      FilesOfItem& added = items_.emplace_back(FilesOfItem{item.name, &item, {}});
      for (std::size_t rank = 0; rank < item.files.size(); ++rank) {
        known.insert(item.files[rank]);
        UCP_RETURN_IF_ERROR(TakeFile(item, rank, added));
      }
    }
    UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, files_.List(folder_));
    std::map<std::string, FilesOfItem> others;
    std::vector<std::string> unread;
    for (const DirectoryEntry& entry : entries) {
      if (known.contains(entry.name) || (entry.is_directory && HoldsOne(entry.name + "/", known))) continue;
      const auto name = entry.is_directory ? std::nullopt : ReadName(entry.name);
      if (!name) {
        unread.push_back(entry.name);
        continue;
      }
      UCP_RETURN_IF_ERROR(CheckRank(entry.name, *name));
      FilesOfItem& item = others[name->item];
      item.name = name->item;
      item.files.emplace(name->rank, entry.name);
    }
    for (auto& [name, item] : others) items_.push_back(std::move(item));
    if (unread.empty()) return llvm::Error::success();
    checkpoint_.inventory.remarks.push_back(
        fmt::format("{} files or folders (first `{}`) are not a rank's file of an item by their names, and are not "
                    "carried over",
                    unread.size(), unread.front()));
    return llvm::Error::success();
  }

  static bool HoldsOne(const std::string& folder, const std::set<std::string>& paths) {
    const auto first = paths.lower_bound(folder);
    return first != paths.end() && first->starts_with(folder);
  }

  // A rank that has none of the item's tensors may lack the file.
  llvm::Error TakeFile(const RankItem& item, std::size_t rank, FilesOfItem& added) {
    const std::string path = JoinPath(folder_, item.files[rank]);
    UCP_ASSIGN_OR_RETURN(const PathKind kind, files_.Kind(path));
    if (kind == PathKind::kFile) added.files.emplace(static_cast<std::int64_t>(rank), item.files[rank]);
    if (kind == PathKind::kFile || !item.holders[rank]) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`{}` is {}, and `{}` says that rank {} has tensors of `{}`; copy the whole checkpoint", path,
                kind == PathKind::kMissing ? "missing" : "not a file", kTorchCheckpointingFile, rank, item.name);
  }

  llvm::Error CheckRank(const std::string& file, const NameOfFile& name) const {
    const auto described = std::ranges::find(metadata_.items, name.item, &RankItem::name);
    if (name.rank < metadata_.world_size && described == metadata_.items.end()) return llvm::Error::success();
    if (name.rank < metadata_.world_size) {
      return Fail(ErrorCode::kBadData, "`{}` has `{}`, and `{}` says that `{}` is rank {}'s file of `{}`", folder_,
                  file, kTorchCheckpointingFile, described->files[static_cast<std::size_t>(name.rank)], name.rank,
                  name.item);
    }
    return Fail(ErrorCode::kBadData, "`{}` has `{}`, and `{}` says that {} ranks saved it; the folder holds two saves",
                folder_, file, kTorchCheckpointingFile, metadata_.world_size);
  }

  ReadableFileSystem& files_;
  const std::string folder_;
  Checkpoint checkpoint_;
  RankMetadata metadata_;
  std::vector<FilesOfItem> items_;
};

}  // namespace

llvm::Expected<bool> IsOfTorchCheckpointing(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(JoinPath(folder, kTorchCheckpointingFile)));
  if (kind != PathKind::kFile) return false;
  UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, files.List(folder));
  return std::ranges::any_of(entries, [](const DirectoryEntry& entry) {
    return !entry.is_directory && std::filesystem::path(entry.name).stem().string().ends_with("_0");
  });
}

llvm::Expected<Checkpoint> DescribeTorchCheckpointing(ReadableFileSystem& files, const std::string& folder,
                                                      const RankPreference& preference, const std::string& tag) {
  return RankedFolder(files, folder).Describe(preference, tag);
}

}  // namespace ucp::dcp
