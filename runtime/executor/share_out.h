// Which rank writes which of the target's files. Whole files: two nodes then never write one block of a network file
// system, and what a file's header says of its contents is known to one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/layout/storage.h"

namespace ucp {

// By FileId. The largest file goes first, each to the rank that has the fewest bytes so far; so no rank has more than
// the average and a file besides. Every rank computes the same.
std::vector<int> ShareOutFiles(const std::vector<StoredFile>& files, int ranks);

// Whether a file is this rank's, by FileId; empty for a rank alone, since then all are.
std::vector<bool> FilesOfRank(const std::vector<StoredFile>& files, int rank, int ranks);

}  // namespace ucp
