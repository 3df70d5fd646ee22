// Each kind of folder that people take for a checkpoint has a test of its own, on names alone. The first that applies
// gives the sentence; the last resort lists what each format looks for.
#include "compiler/formats/recognise/unknown.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/files/lfs_pointer.h"
#include "compiler/formats/recognise/candidates.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using Entries = std::vector<DirectoryEntry>;

constexpr std::size_t kMostFolders = 64;  // That are looked into for checkpoints a level further down.
constexpr std::size_t kMostPaths = 4;

llvm::Error NotKnown(const std::string& path) {
  return Fail(
      ErrorCode::kUnsupported,
      "`{}` is not a recognised checkpoint: a DeepSpeed folder holds `mp_rank_*_model_states.pt` and "
      "`*_optim_states.pt` (its root a file `latest`), a universal one a folder `zero` (its root a file "
      "`latest_universal`), a safetensors one `model.safetensors` or `model.safetensors.index.json`, one of "
      "torch.distributed.checkpoint `.metadata`, one of Megatron Core `metadata.json` beside that, or folders such as "
      "`mp_rank_00` with `model_optim_rng.pt`",
      path);
}

std::string IsGguf(const std::string& path) {
  return fmt::format(
      "`{}` is a GGUF file, whose weights llama.cpp packed for inference; name the Hugging Face folder that it was "
      "made of",
      path);
}

// "`up/a`, `up/b` and 3 more"
std::string Paths(std::vector<std::string> paths) {
  const std::size_t more = paths.size() - std::min(paths.size(), kMostPaths);
  paths.resize(paths.size() - more);
  return fmt::format("`{}`{}", fmt::join(paths, "`, `"), more > 0 ? fmt::format(" and {} more", more) : "");
}

bool Has(const Entries& entries, std::string_view name) {
  return std::ranges::any_of(entries, [&](const DirectoryEntry& entry) { return entry.name == name; });
}

// The folders of snapshots in the cache that Hugging Face's libraries keep: of one model, or of all in it.
llvm::Expected<std::vector<std::string>> SnapshotsIn(ReadableFileSystem& files, const std::string& folder,
                                                     const Entries& entries) {
  std::vector<std::string> found;
  for (const DirectoryEntry& entry : entries) {
    const std::string inside = JoinPath(folder, entry.name);
    if (entry.is_directory && entry.name.starts_with("models--")) {
      UCP_ASSIGN_OR_RETURN(const Entries of_model, files.List(inside));
      UCP_ASSIGN_OR_RETURN(const std::vector<std::string> snapshots, SnapshotsIn(files, inside, of_model));
      found.insert(found.end(), snapshots.begin(), snapshots.end());
    } else if (entry.is_directory && entry.name == "snapshots") {
      UCP_ASSIGN_OR_RETURN(const Entries snapshots, files.List(inside));
      for (const DirectoryEntry& snapshot : snapshots) found.push_back(JoinPath(inside, snapshot.name));
    }
  }
  return found;
}

// Folders two levels down that are checkpoints.
llvm::Expected<std::vector<std::string>> CheckpointsBelow(ReadableFileSystem& files, const std::string& folder,
                                                          const Entries& entries) {
  std::vector<std::string> found;
  std::size_t looked = 0;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_directory || entry.name.starts_with('.') || ++looked > kMostFolders) continue;
    const std::string inside = JoinPath(folder, entry.name);
    llvm::Expected<std::vector<Candidate>> candidates = FindCandidates(files, inside);
    if (!candidates) {
      llvm::consumeError(candidates.takeError());  // A folder that cannot be read is none to name.
      continue;
    }
    for (const Candidate& candidate : *candidates) found.push_back(JoinPath(inside, candidate.name));
  }
  return found;
}

// By the names in the folder alone; nothing if they say nothing.
std::optional<std::string> KindByNames(const std::string& folder, const Entries& entries) {
  if (entries.empty())
    return fmt::format("`{}` is not a recognised checkpoint: the folder is empty; name the one that training saved to",
                       folder);
  const auto gguf = std::ranges::find_if(entries, [](const auto& entry) { return entry.name.ends_with(".gguf"); });
  if (gguf != entries.end()) return IsGguf(JoinPath(folder, gguf->name));
  if (Has(entries, "adapter_config.json")) {
    return fmt::format(
        "`{}` is an adapter of PEFT, and not a whole model; merge it into its model with merge_and_unload(), and name "
        "the folder that save_pretrained() then writes",
        folder);
  }
  if (Has(entries, "config.json")) {
    return fmt::format(
        "`{}` is not a recognised checkpoint: it has the `config.json` of a model and no weights; fetch "
        "`model.safetensors`, or its parts and `model.safetensors.index.json`, into it",
        folder);
  }
  return std::nullopt;
}

llvm::Error RefuseFolder(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const Entries entries, files.List(folder));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> snapshots, SnapshotsIn(files, folder, entries));
  if (!snapshots.empty()) {
    return Fail(ErrorCode::kUnsupported, "`{}` is Hugging Face's cache; name the snapshot of a model in it: {}", folder,
                Paths(snapshots));
  }
  if (const std::optional<std::string> kind = KindByNames(folder, entries)) {
    return Fail(ErrorCode::kUnsupported, "{}", *kind);
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> below, CheckpointsBelow(files, folder, entries));
  if (below.empty()) return NotKnown(folder);
  return Fail(ErrorCode::kUnsupported,
              "neither `{}` nor a folder in it is a checkpoint; further down there is {}: name {}", folder,
              Paths(below), below.size() == 1 ? "it" : "one of them");
}

llvm::Error RefuseFile(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenForReading(path));
  UCP_RETURN_IF_ERROR(RefuseLfsPointer(*file));
  std::string first(std::min<std::uint64_t>(file->bytes(), 4), '\0');
  UCP_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(first))));
  if (first == "GGUF") return Fail(ErrorCode::kUnsupported, "{}", IsGguf(path));
  return NotKnown(path);
}

}  // namespace

llvm::Error RefuseUnknown(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(path));
  if (kind == PathKind::kDirectory) return RefuseFolder(files, path);
  return kind == PathKind::kFile ? RefuseFile(files, path) : NotKnown(path);
}

}  // namespace ucp
