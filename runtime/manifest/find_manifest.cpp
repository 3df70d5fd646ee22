#include "runtime/manifest/find_manifest.h"

#include <fmt/format.h>

#include <filesystem>

#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<std::optional<FoundManifest>> FindManifest(FileSystem& files, const std::string& path) {
  constexpr std::uint64_t kLargestManifest = std::uint64_t{1} << 30;
  for (const std::string& root : {path, std::filesystem::path(path).lexically_normal().parent_path().string()}) {
    const std::string file = JoinPath(root, kManifestName);
    UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(file));
    if (kind != PathKind::kFile) continue;
    UCP_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(files, file, kLargestManifest));
    auto manifest = ParseManifest(text);
    if (!manifest) return AddContext(manifest.takeError(), fmt::format("`{}`", file));
    return FoundManifest{root, std::move(*manifest)};
  }
  return std::nullopt;
}

}  // namespace ucp
