#include "runtime/same_states/stored_digests.h"

#include <filesystem>

#include "compiler/support/error.h"
#include "compiler/support/paths.h"
#include "runtime/manifest/find_manifest.h"

namespace ucp {
namespace {

llvm::Expected<bool> SpeaksOf(const FoundManifest& found, const Inventory& inventory) {
  namespace fs = std::filesystem;
  std::map<std::string, std::uint64_t> recorded;
  for (const ManifestFile& file : found.manifest.files) recorded[file.path] = file.bytes;
  UCP_ASSIGN_OR_RETURN(const fs::path root, AbsolutePath(found.root));
  UCP_ASSIGN_OR_RETURN(const fs::path folder, AbsolutePath(inventory.root));
  for (const StoredFile& file : inventory.storage.files) {
    auto entry = recorded.find((folder / file.path).lexically_normal().lexically_relative(root).generic_string());
    if (entry == recorded.end() || entry->second != file.bytes) return false;
  }
  return true;
}

}  // namespace

llvm::Expected<StoredDigests> FindStoredDigests(ReadableFileSystem& files, const std::string& path,
                                                const Inventory& inventory) {
  UCP_ASSIGN_OR_RETURN(std::optional<FoundManifest> found, FindManifest(files, path));
  StoredDigests digests;
  if (!found || found->manifest.digests != kDigestVersion) return digests;
  UCP_ASSIGN_OR_RETURN(const bool speaks_of_it, SpeaksOf(*found, inventory));
  if (!speaks_of_it) return digests;
  for (const StateDigest& entry : found->manifest.states) digests[{entry.tensor, entry.state}] = entry;
  return digests;
}

}  // namespace ucp
