#include "compiler/formats/dcp/file_names.h"

#include <algorithm>
#include <filesystem>

#include "compiler/formats/identity.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

constexpr const char* kAccelerateModel = "pytorch_model_fsdp_0/";
constexpr const char* kAccelerateOptimizer = "optimizer_0/";

llvm::Expected<bool> HasFile(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(path));
  return kind == PathKind::kFile;
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

llvm::Error RefuseUnfinishedSave(const std::string& folder, const std::string& found) {
  return Fail(ErrorCode::kBadData,
              "`{}` holds `{}` and no `{}`, which torch.distributed.checkpoint writes last: the save did not finish; "
              "use an older checkpoint",
              folder, found, kMetadataFile);
}

// Megatron Core has the same container, and names of its own in it.
llvm::Error RefuseMegatron(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const bool is_megatron, HasFile(files, JoinPath(folder, "common.pt")));
  if (!is_megatron) return llvm::Error::success();
  return Fail(
      ErrorCode::kUnsupported,
      "`{}` was saved by Megatron Core (`common.pt` is of its `torch_dist` checkpoints), which this version does "
      "not read",
      folder);
}

}  // namespace

llvm::Expected<bool> IsCheckpointFolder(ReadableFileSystem& files, const std::string& folder) {
  for (const std::string part : {"", kAccelerateModel}) {
    UCP_ASSIGN_OR_RETURN(const bool is_one, HasFile(files, JoinPath(folder, part + kMetadataFile)));
    if (is_one) return true;
  }
  UCP_ASSIGN_OR_RETURN(const std::string found, UnfinishedFile(files, folder));
  return !found.empty();
}

llvm::Expected<std::vector<std::string>> FoldersOf(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const bool is_one, HasFile(files, JoinPath(folder, kMetadataFile)));
  if (is_one) {
    UCP_RETURN_IF_ERROR(RefuseMegatron(files, folder));
    return std::vector<std::string>{""};
  }
  std::vector<std::string> parts;
  for (const std::string part : {kAccelerateModel, kAccelerateOptimizer}) {
    UCP_ASSIGN_OR_RETURN(const bool is_there, HasFile(files, JoinPath(folder, part + kMetadataFile)));
    const std::string path = JoinPath(folder, part.substr(0, part.size() - 1));
    UCP_ASSIGN_OR_RETURN(const std::string unfinished, is_there ? std::string() : UnfinishedFile(files, path));
    if (!unfinished.empty()) return RefuseUnfinishedSave(path, unfinished);
    if (is_there) parts.push_back(part);
  }
  if (!parts.empty()) return parts;
  UCP_ASSIGN_OR_RETURN(const std::string found, UnfinishedFile(files, folder));
  return RefuseUnfinishedSave(folder, found);
}

bool IsFileName(std::string_view path) {
  for (const std::string_view part : {kAccelerateModel, kAccelerateOptimizer}) {
    if (path.starts_with(part)) path.remove_prefix(part.size());
  }
  return path == kMetadataFile ||
         (path.starts_with("__") && path.ends_with(kDataSuffix) && path.find('/') == std::string_view::npos);
}

std::string TagOf(const std::string& folder) {
  std::string name = NameOfFolder(folder);
  if (name + "/" != kAccelerateModel && name + "/" != kAccelerateOptimizer) return name;
  const std::string around = NameOfFolder((std::filesystem::path(folder) / "..").lexically_normal().string());
  return around.empty() ? name : around;
}

}  // namespace ucp::dcp
