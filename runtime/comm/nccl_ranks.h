// Ranks that speak by NCCL: for jobs on GPUs that have no MPI for it. Each has a GPU of its own.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace ucp {

struct NcclJob {
  int rank = 0;
  int size = 1;
  std::string id;            // Of NewNcclId(), the same on all ranks.
  int device = 0;            // As CUDA counts this process's GPUs.
  double seconds = 600;      // How long to wait for others, in each call, before the communicator is aborted.
  std::string library = {};  // NCCL's file; empty: libnccl.so.2, as the process has it or the system finds it.
};

// Made by one rank, and carried to the others by the job's own means. Without the plugin or NCCL: kUnsupported.
llvm::Expected<std::string> NewNcclId(const std::string& library = "");

// Waits for the others. Every call fails (kIo) when they take longer than `seconds` or one of them has failed, and
// every one after that; so does their next call. There are no messages, and nobody can be asked to stop between calls.
llvm::Expected<std::unique_ptr<Communicator>> ConnectByNccl(const NcclJob& job);

}  // namespace ucp
