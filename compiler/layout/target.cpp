#include "compiler/layout/target.h"

namespace ucp {

BlobId TargetFiles::AddBlob(std::string content) {
  auto [entry, added] = blob_of_content_.try_emplace(content, BlobId(blobs.size()));
  if (added) blobs.push_back(std::move(content));
  return entry->second;
}

}  // namespace ucp
