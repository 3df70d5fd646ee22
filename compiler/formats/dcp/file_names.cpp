#include "compiler/formats/dcp/file_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "compiler/formats/dcp/torch_checkpointing/read.h"
#include "compiler/formats/dcp/write/style.h"
#include "compiler/formats/identity.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

llvm::Expected<bool> HasFile(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(path));
  return kind == PathKind::kFile;
}

// Of "__12.metadata" and "__12_0.distcp"; nothing of other names.
std::optional<std::int64_t> RankOf(std::string_view name, std::string_view suffix) {
  if (!name.starts_with("__") || !name.ends_with(suffix) || name.size() < 2 + suffix.size()) return std::nullopt;
  name.remove_prefix(2);
  name.remove_suffix(suffix.size());
  name = name.substr(0, name.find('_'));
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (error != std::errc() || end != name.data() + name.size() || rank < 0) return std::nullopt;
  return rank;
}

llvm::Expected<std::string> FirstDataFile(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(folder));
  if (kind != PathKind::kDirectory) return std::string();
  UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, files.List(folder));
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_directory && entry.name.ends_with(kDataSuffix)) return entry.name;
  }
  return std::string();
}

// Of a folder without `.metadata`, that a save into it began; empty: none did.
llvm::Expected<std::string> UnfinishedFile(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const bool has_temporary, HasFile(files, JoinPath(folder, kUnfinishedMetadataFile)));
  if (has_temporary) return std::string(kUnfinishedMetadataFile);
  return FirstDataFile(files, folder);
}

llvm::Error RefuseUnfinishedSave(ReadableFileSystem& files, const std::string& folder, const std::string& found) {
  const std::string metadata = JoinPath(folder, kMetadataFile);
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(metadata));
  if (kind == PathKind::kDirectory || kind == PathKind::kOther) {
    return Fail(ErrorCode::kBadData, "`{}` is {} and not a file", metadata,
                kind == PathKind::kDirectory ? "a folder" : "a pipe or a device");
  }
  return Fail(ErrorCode::kBadData,
              "`{}` holds `{}` and no `{}`, which torch.distributed.checkpoint writes last: the save did not finish; "
              "use an older checkpoint",
              folder, found, kMetadataFile);
}

}  // namespace

// `common.pt` is written first and `metadata.json` last. Later releases write no `common.pt`.
llvm::Expected<bool> IsOfMegatron(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const bool has_common, HasFile(files, JoinPath(folder, kMegatronCommonFile)));
  UCP_ASSIGN_OR_RETURN(const bool has_metadata, HasMetadata(files, folder));
  const std::string description = JoinPath(folder, kMegatronDescription);
  UCP_ASSIGN_OR_RETURN(const bool has_description, HasFile(files, description));
  if (has_common && (has_metadata || has_description)) return true;
  if (!has_metadata || !has_description) return false;
  constexpr std::uint64_t kMostBytes = 65536;
  auto text = ReadWholeFile(files, description, kMostBytes);
  if (!text) {
    llvm::consumeError(text.takeError());
    return false;
  }
  return text->find("\"sharded_backend\"") != std::string::npos;
}

llvm::Expected<bool> HasMetadata(ReadableFileSystem& files, const std::string& folder) {
  for (const char* name : {kMetadataFile, kFirstRanksMetadataFile}) {
    UCP_ASSIGN_OR_RETURN(const bool is_there, HasFile(files, JoinPath(folder, name)));
    if (is_there) return true;
  }
  return false;
}

llvm::Expected<bool> IsCheckpointFolder(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const bool is_megatron, IsOfMegatron(files, folder));
  if (is_megatron) return false;
  for (const std::string part : {"", kAccelerateModel}) {
    UCP_ASSIGN_OR_RETURN(const bool is_one, HasMetadata(files, JoinPath(folder, part)));
    if (is_one) return true;
  }
  UCP_ASSIGN_OR_RETURN(const std::string found, UnfinishedFile(files, folder));
  if (!found.empty()) return true;
  return IsOfTorchCheckpointing(files, folder);
}

llvm::Expected<std::vector<std::string>> FoldersOf(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const bool is_one, HasMetadata(files, folder));
  if (is_one) return std::vector<std::string>{""};
  std::vector<std::string> parts;
  for (const std::string part : {kAccelerateModel, kAccelerateOptimizer}) {
    const std::string path = JoinPath(folder, part.substr(0, part.size() - 1));
    UCP_ASSIGN_OR_RETURN(const bool is_there, HasMetadata(files, path));
    UCP_ASSIGN_OR_RETURN(const std::string unfinished, is_there ? std::string() : UnfinishedFile(files, path));
    if (!unfinished.empty()) return RefuseUnfinishedSave(files, path, unfinished);
    if (is_there) parts.push_back(part);
  }
  if (!parts.empty()) return parts;
  UCP_ASSIGN_OR_RETURN(const std::string found, UnfinishedFile(files, folder));
  if (!found.empty()) return RefuseUnfinishedSave(files, folder, found);
  return parts;
}

bool IsFileName(std::string_view path) {
  for (const std::string_view part : {kAccelerateModel, kAccelerateOptimizer}) {
    if (path.starts_with(part)) path.remove_prefix(part.size());
  }
  return path == kMetadataFile || path == kLightningFile ||
         (path.starts_with("__") && path.ends_with(kDataSuffix) && path.find('/') == std::string_view::npos);
}

llvm::Expected<std::vector<std::string>> MetadataFilesOf(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const bool is_one, HasFile(files, JoinPath(folder, kMetadataFile)));
  if (is_one) return std::vector<std::string>{kMetadataFile};
  UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, files.List(folder));
  std::set<std::int64_t> ranks;
  std::map<std::int64_t, std::string> file_of_rank;  // A data file.
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_directory) continue;
    if (const auto rank = RankOf(entry.name, kMetadataFile)) ranks.insert(*rank);
    if (const auto rank = RankOf(entry.name, kDataSuffix)) file_of_rank.emplace(*rank, entry.name);
  }
  std::int64_t last = 0;
  if (!ranks.empty()) last = *ranks.rbegin();
  if (!file_of_rank.empty()) last = std::max(last, file_of_rank.rbegin()->first);
  std::vector<std::string> names;
  for (std::int64_t rank = 0; rank <= last; ++rank) {
    names.push_back(fmt::format("__{}{}", rank, kMetadataFile));
    if (ranks.contains(rank)) continue;
    const auto file = file_of_rank.find(rank);
    return Fail(
        ErrorCode::kBadData,
        "`{}` has metadata of each rank by itself, up to rank {}{}, and no `{}`: the save did not finish; use an "
        "older checkpoint",
        folder, last, file == file_of_rank.end() ? "" : fmt::format(", and `{}`", file->second), names.back());
  }
  return names;
}

std::string TagOf(const std::string& folder) {
  std::string name = NameOfFolder(folder);
  if (name + "/" != kAccelerateModel && name + "/" != kAccelerateOptimizer) return name;
  const std::string around = NameOfFolder((std::filesystem::path(folder) / "..").lexically_normal().string());
  return around.empty() ? name : around;
}

}  // namespace ucp::dcp
