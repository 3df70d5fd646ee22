#include "runtime/manifest/part_of_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/formats/file_of_save.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// A part's manifest begins with these bytes, since this program alone writes it.
constexpr std::uint64_t kHeadBytes = 4096;

llvm::Expected<bool> IsOfPart(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenForReading(path));
  std::string head(std::min(file->bytes(), kHeadBytes), '\0');
  UCP_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(head))));
  const std::string_view before_files = std::string_view(head).substr(0, head.find("\"files\""));
  return before_files.find("\"parts\"") != std::string_view::npos;
}

}  // namespace

llvm::Expected<std::optional<FoundManifest>> FindPart(ReadableFileSystem& files, const std::string& path) {
  for (const std::string& root : RootsOf(path)) {
    const std::string manifest = JoinPath(root, kManifestName);
    UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(manifest));
    if (kind != PathKind::kFile) continue;
    UCP_ASSIGN_OR_RETURN(bool is_of_part, IsOfPart(files, manifest));
    if (!is_of_part) break;
    return FindManifest(files, path);
  }
  return std::nullopt;
}

llvm::Expected<std::vector<ManifestFile>> FilesElsewhere(ReadableFileSystem& files, const FoundManifest& found) {
  std::vector<ManifestFile> elsewhere;
  for (const ManifestFile& file : found.manifest.files) {
    UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(JoinPath(found.root, file.path)));
    if (kind == PathKind::kMissing) elsewhere.push_back(file);
  }
  std::vector<std::string> paths;
  for (const ManifestFile& file : elsewhere) paths.push_back(file.path);
  UCP_RETURN_IF_ERROR(CheckOneSave(files, found.root, paths));
  return elsewhere;
}

bool IsIn(const ManifestFile& file, int part) {
  return file.parts.empty() || std::ranges::binary_search(file.parts, part);
}

std::string HashOfAll(Manifest manifest) {
  manifest.part.number = 1;
  return ContentHash(ComposeManifest(manifest));
}

std::string Name(const ManifestPart& part) { return fmt::format("part {} of {}", part.number, part.count); }

llvm::Error CheckIsWhole(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::optional<FoundManifest> found, FindPart(files, path));
  if (!found) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(std::vector<ManifestFile> elsewhere, FilesElsewhere(files, *found));
  const int mine = found->manifest.part.number;
  // A reader misses what this part itself lacks, like any missing file.
  std::erase_if(elsewhere, [&](const ManifestFile& file) { return IsIn(file, mine); });
  if (elsewhere.empty()) return llvm::Error::success();
  const ManifestFile& first = elsewhere.front();
  return Fail(
      ErrorCode::kBadData,
      "`{}` is {} of a checkpoint (run {}), and {} of it {} in the other parts, as `{}` is in part {}; read all "
      "parts together under mpirun with {}, or copy them into one folder",
      found->root, Name(found->manifest.part), found->manifest.part.run, Counted(elsewhere.size(), "file"),
      elsewhere.size() == 1 ? "is" : "are", first.path, fmt::join(first.parts, ", "),
      OptionName(UserOption::kNodeLocal, "source"));
}

}  // namespace ucp
