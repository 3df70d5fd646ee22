// Ranks that speak by NCCL, for LoadSettings::ranks: for jobs on GPUs whose processes have no other way. Each has a GPU
// of its own; with one GPU there is one rank. NCCL is opened when it is asked for; a library that was built without it
// says so (kUnsupported).
#pragma once

#include <memory>
#include <string>

#include "ucp/error.h"
#include "ucp/ranks.h"

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

struct NcclSettings {
  // As CUDA counts the GPUs that this process sees. It is the calling thread's current device after every call.
  int device = 0;
  // How long to wait for other ranks, in each call, before the communicator is aborted. Then this call fails (kIo), and
  // so do all later ones; the other ranks find out through NCCL where it can tell them, or
  // after as long.
  double timeout_seconds = 600;
  // NCCL's file. Empty: libnccl.so.2, as the process has it already or the system finds it; in the Python package of
  // NCCL it is nvidia/nccl/lib/libnccl.so.2.
  std::string library = {};
};

// 128 bytes by which the ranks of one job find each other: one rank makes them, and carries them to the others in a way
// of its own.
std::string MakeNcclId(const std::string& library = {});

// Waits for the others. Throws Error.
std::unique_ptr<Ranks> JoinNccl(int rank, int size, const std::string& id, const NcclSettings& settings = {});

}  // namespace v0
}  // namespace ucp
