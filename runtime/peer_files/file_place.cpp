#include "runtime/peer_files/file_place.h"

#include <optional>

#include "compiler/files/lasting_inodes.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

const char* NameOf(PathKind kind) {
  switch (kind) {
    case PathKind::kMissing:
      return "nothing";
    case PathKind::kFile:
      return "a file";
    case PathKind::kDirectory:
      return "a folder";
    case PathKind::kOther:
      return "neither a file nor a folder";
  }
  UCP_UNREACHABLE();
}

// On one node, two of the same path and size. Where inodes do not last, the time tells.
bool AreOneFile(const FileStatus& a, const FileStatus& b) {
  if (a.device != b.device || a.inode != b.inode) return false;
  return a.inode != kFleetingInode || a.modified_nanoseconds == b.modified_nanoseconds;
}

}  // namespace

llvm::Expected<FilePlace> PlaceOf(const std::string& path, const std::vector<PathStatus>& seen,
                                  const std::vector<int>& node_of_rank, const char* noun) {
  FilePlace place;
  std::optional<int> first;
  auto node_of = [&](int rank) { return node_of_rank[static_cast<std::size_t>(rank)]; };
  for (const auto& [rank, status] : seen) {
    if (status.kind == PathKind::kMissing) {
      if (status.is_link && !first) place.status = status;  // A link to nothing is all that there is, perhaps.
      continue;
    }
    if (!first) {
      first = rank;
      place.status = status;
    }
    if (status.kind != place.status.kind) {
      return Fail(ErrorCode::kBadData,
                  "`{0}` is {1} at {5} {2} and {3} at {5} {4}; their parts are not of one checkpoint", path,
                  NameOf(place.status.kind), *first, NameOf(status.kind), rank, noun);
    }
    if (status.kind != PathKind::kFile) continue;
    if (status.bytes != place.status.bytes) {
      return Fail(ErrorCode::kBadData,
                  "`{0}` has {1} bytes at {5} {2} and {3} at {5} {4}; their parts are not of one checkpoint", path,
                  place.status.bytes, *first, status.bytes, rank, noun);
    }
    const bool is_same = node_of(rank) == node_of(*first) && AreOneFile(status, place.status);
    if (rank == *first || is_same) place.holders.push_back(rank);
  }
  return place;
}

}  // namespace ucp
