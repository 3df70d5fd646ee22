// Deals the files of a target to the parts of nodes.
//
// A job's ranks are dealt to nodes as launchers do it: consecutive ones to each, and where they cannot be dealt evenly,
// one more to each of the first nodes. A file is in the part of every node whose ranks open it, and in all parts if all
// ranks open it.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/engine/target_parts.h"

namespace ucp {

// Returns the node of a rank of a job of `ranks` that runs on so many nodes.
int NodeOfJobRank(int rank, int ranks, int nodes);

// `part_of_rank`, of this run's ranks, are numbers from 0 on, in the order of their lowest ranks. Where `readers` say
// nothing of files, every rank opens them.
TargetParts DealFiles(const FileReaders& readers, std::size_t files, std::vector<int> part_of_rank);

// Returns the parts of each file, to be sent to other ranks; each knows the parts of the ranks.
std::string EncodeDealt(const TargetParts& parts);
llvm::Expected<TargetParts> DecodeDealt(const std::string& bytes, std::size_t files, std::vector<int> part_of_rank);

}  // namespace ucp
