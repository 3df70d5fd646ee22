// Ranks that speak by NCCL: for jobs on GPUs that have no MPI for it, and for bytes that go from GPU to GPU. Each has a
// GPU of its own.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

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

// The GPUs of all ranks, which give each other bytes of their own memory.
class NcclPeers {
 public:
  virtual ~NcclPeers() = default;

  // As Communicator::Deliver(), but all bytes lie in the memory of the ranks' GPUs, those to send are there already,
  // and every rank calls it. Fails (kIo) as above, or once the ranks are asked to stop (kCancelled); then every call
  // after that fails.
  [[nodiscard]] virtual llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) = 0;
};

// The GPU that one of several ranks brings along.
struct NcclOffer {
  int device = 0;
  std::string why_not;        // Why this rank has no GPU for it. Empty: it has.
  std::vector<int> partners;  // Ranks whose GPUs its GPU sends to or receives from, and theirs have it.
  double seconds = 0;         // How long to wait for bytes, once all ranks are there to exchange them.
};

// Connects the GPUs of ranks that speak in another way; all call it. Where a rank has no GPU, no plugin or no NCCL, or
// NCCL cannot join them (it gives a GPU to one rank alone) or get a first byte from each to each of its partners, there
// are no peers on any rank, and `why_not` says why. There are no peers either where no rank has partners, and `why_not`
// is empty then. `ranks` must outlive the peers.
struct NcclConnection {
  std::unique_ptr<NcclPeers> peers;
  std::string why_not;
};
llvm::Expected<NcclConnection> ConnectGpus(Communicator& ranks, const NcclOffer& mine);

}  // namespace ucp
