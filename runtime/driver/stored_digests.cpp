#include "runtime/driver/stored_digests.h"

#include <filesystem>

#include "compiler/support/error.h"
#include "runtime/manifest/find_manifest.h"

namespace ucp {
namespace {

bool SpeaksOf(const FoundManifest& found, const Inventory& inventory) {
  namespace fs = std::filesystem;
  std::map<std::string, std::uint64_t> recorded;
  for (const ManifestFile& file : found.manifest.files) recorded[file.path] = file.bytes;
  const fs::path root = fs::absolute(found.root).lexically_normal();
  const fs::path folder = fs::absolute(inventory.root).lexically_normal();
  for (const StoredFile& file : inventory.storage.files) {
    auto entry = recorded.find((folder / file.path).lexically_normal().lexically_relative(root).generic_string());
    if (entry == recorded.end() || entry->second != file.bytes) return false;
  }
  return true;
}

}  // namespace

llvm::Expected<StoredDigests> FindStoredDigests(FileSystem& files, const std::string& path,
                                                const Inventory& inventory) {
  UCP_ASSIGN_OR_RETURN(std::optional<FoundManifest> found, FindManifest(files, path));
  StoredDigests digests;
  if (!found || found->manifest.digests != kDigestVersion || !SpeaksOf(*found, inventory)) return digests;
  for (const StateDigest& entry : found->manifest.states) digests[{entry.tensor, entry.state}] = entry;
  return digests;
}

}  // namespace ucp
