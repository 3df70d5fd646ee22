#include "compiler/layout/target.h"

#include <functional>
#include <utility>

namespace ucp {

const LogicalTensor::State* FindState(const LogicalTensor& tensor, std::string_view name) {
  for (const LogicalTensor::State& state : tensor.states) {
    if (state.name == name) return &state;
  }
  return nullptr;
}

BlobId TargetFiles::AddBlob(std::string content) {
  const std::size_t hash = std::hash<std::string_view>()(content);
  const auto [first, last] = blobs_of_hash_.equal_range(hash);
  for (auto known = first; known != last; ++known) {
    if (blobs[known->second.index()] == content) return known->second;
  }
  const BlobId id(blobs.size());
  blobs.push_back(std::move(content));
  blobs_of_hash_.emplace(hash, id);
  return id;
}

}  // namespace ucp
