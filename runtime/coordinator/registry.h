// Where a coordinator keeps its decisions, for the one after it: a file (decision_journal.h) or etcd (etcd_registry.h).
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/coordinator/entry.h"

namespace ucp {

class Registry {
 public:
  virtual ~Registry() = default;

  // The entries of earlier coordinators, in their order. Can be taken once.
  virtual std::vector<CoordinatorEntry> TakeEntries() = 0;

  // "`journal`: line 3", of entry 2.
  virtual std::string PlaceOf(std::size_t entry) const = 0;

  // The entries are durable when it returns (H5). Fails with kIo.
  [[nodiscard]] virtual llvm::Error Append(const std::vector<CoordinatorEntry>& entries) = 0;

  // To be called in each round, before anything is decided or sent: fails with kIo if this coordinator may decide
  // nothing more.
  [[nodiscard]] virtual llvm::Error Keep() = 0;
};

}  // namespace ucp
