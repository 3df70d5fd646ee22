// The process that keeps the tasks of a cluster running: connections of agents, the state that they change
// (coordination.h), and the journal that outlives it. One thread, which waits for nobody.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/coordinator/tls.h"
#include "runtime/healing/cluster.h"

namespace ucp {

struct CoordinatorOptions {
  std::uint16_t port = 0;
  std::string secret;              // Empty: only this machine is listened to.
  std::optional<TlsSettings> tls;  // Nothing: messages are not encrypted.
  std::string journal;             // A file; empty: none.
  std::string registry;            // Instead of a file: etcd://HOST:PORT. Without both, nothing is kept.
  std::int64_t spares = 0;         // Of each task; with a cluster, of that.
  std::optional<Cluster> cluster;  // Whose tasks share its nodes by what they are worth.
  std::string on_node_lost;        // A command of the shell; empty: none.
};

// Runs until `stop` is set. `say` is given each event as a line. Fails with kIo if it cannot listen or keep its
// decisions, with kUsage and kBadData as DecisionJournal::Open() and EtcdRegistry::Open(). Tasks go on in any case
// (H6).
[[nodiscard]] llvm::Error RunCoordinator(const CoordinatorOptions& options, const std::atomic<bool>& stop,
                                         const std::function<void(const std::string&)>& say);

}  // namespace ucp
