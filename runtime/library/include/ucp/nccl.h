// Ranks that exchange bytes by NCCL, for LoadSettings::ranks: for jobs on GPUs whose processes have no other way. Each
// rank has a GPU of its own; with one GPU there is one rank. NCCL is opened by the first call; a library that was built
// without it throws kUnsupported.
#pragma once

#include <memory>
#include <string>

#include "ucp/error.h"
#include "ucp/ranks.h"

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

struct NcclSettings {
  // The GPU's number, as CUDA counts those that this process sees. It is the calling thread's current device after
  // every call.
  int device = 0;
  // How long to wait for other ranks, in each call, before the communicator is aborted. Then this call fails (kIo), and
  // so do all later ones; the other ranks find out through NCCL where it can tell them, or
  // after as long.
  double timeout_seconds = 600;
  // NCCL's file. Empty: libnccl.so.2, as the process has it already or the system finds it; in the Python package of
  // NCCL it is nvidia/nccl/lib/libnccl.so.2.
  std::string library = {};
};

// Returns 128 bytes by which the ranks of one job find each other: one rank makes them, and gives them to the others in
// its own way. Throws Error.
std::string MakeNcclId(const std::string& library = {});

// Joins the other ranks, and waits until all have joined. Throws Error.
std::unique_ptr<Ranks> JoinNccl(int rank, int size, const std::string& id, const NcclSettings& settings = {});

}  // namespace v0
}  // namespace ucp
