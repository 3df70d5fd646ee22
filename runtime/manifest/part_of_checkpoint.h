// One part of a checkpoint whose other parts may be on other nodes: it is never taken for the whole.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "runtime/manifest/find_manifest.h"

namespace ucp {

// Returns the manifest at `path`, as FindManifest() finds it, if it is one of a part. Of any other its first bytes are
// read.
llvm::Expected<std::optional<FoundManifest>> FindPart(ReadableFileSystem& files, const std::string& path);

// Returns the files of the whole checkpoint that are not in the folder beside the manifest. None, if the folder has all
// of it: because every part has every file, or because somebody has put the parts together. Fails (kBadData) if a
// file of another save is in the place of one of them, as where parts of two saves were put together.
llvm::Expected<std::vector<ManifestFile>> FilesElsewhere(ReadableFileSystem& files, const FoundManifest& found);

// Returns whether the file is in this part.
bool IsIn(const ManifestFile& file, int part);

// Returns the hash of all that the parts of one run have in common, which is everything but their number: the digests
// of all files are in it, so it differs if a part was made of other data.
std::string HashOfAll(Manifest manifest);

// "part 2 of 3"
std::string Name(const ManifestPart& part);

// Fails (kBadData) if `path` is a part of a checkpoint and files of it are elsewhere.
[[nodiscard]] llvm::Error CheckIsWhole(ReadableFileSystem& files, const std::string& path);

}  // namespace ucp
