// Which rank writes which of the target's files. Whole files: two nodes then never write one block of a network file
// system, and what a file's header says of its contents is known to one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/layout/storage.h"
#include "runtime/executor/target_parts.h"

namespace ucp {

// By FileId, for ranks that are on these nodes. The largest file goes first, each to the node that has the fewest bytes
// so far, since its ranks share one way to the storage, and there to the rank that has the fewest. So no node, and no
// rank of a node, has more than the average and a file besides. Every rank computes the same.
std::vector<int> ShareOutFiles(const std::vector<StoredFile>& files, const std::vector<int>& node_of_rank);

// Whether a file is this rank's, by FileId; empty for a rank alone, since then all are. Without `node_of_rank` all
// ranks are on one node.
std::vector<bool> FilesOfRank(const std::vector<StoredFile>& files, int rank, int ranks,
                              std::vector<int> node_of_rank = {});

// The same where a target is in parts: each is shared out over its own ranks, and one that is done over none.
std::vector<bool> FilesOfRank(const std::vector<StoredFile>& files, int rank, const TargetParts& parts);

}  // namespace ucp
