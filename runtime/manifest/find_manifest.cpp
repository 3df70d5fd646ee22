#include "runtime/manifest/find_manifest.h"

#include <filesystem>

#include "compiler/support/error.h"

namespace ucp {

std::vector<std::string> RootsOf(const std::string& path) {
  return {path, std::filesystem::path(path).lexically_normal().parent_path().string()};
}

llvm::Expected<std::optional<FoundManifest>> FindManifest(ReadableFileSystem& files, const std::string& path) {
  for (const std::string& root : RootsOf(path)) {
    if (root != path) {  // Anything but a file there belongs to somebody else.
      UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(JoinPath(root, kManifestName)));
      if (kind != PathKind::kFile) continue;
    }
    UCP_ASSIGN_OR_RETURN(std::optional<Manifest> manifest, ReadManifest(files, root));
    if (manifest) return FoundManifest{root, std::move(*manifest)};
  }
  return std::nullopt;
}

}  // namespace ucp
