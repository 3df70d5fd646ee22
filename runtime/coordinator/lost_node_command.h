// The command that a coordinator runs when a node is lost or left out, so that somebody replaces it: each cloud has its
// own way.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "runtime/coordinator/entry.h"

namespace ucp {

class LostNodeCommand {
 public:
  explicit LostNodeCommand(std::string command) : command_(std::move(command)) {}

  // Starts it, with UCP_NODE, UCP_TASK and UCP_REASON in its environment, and does not wait. Fails with kIo.
  [[nodiscard]] llvm::Error Run(const CoordinatorEntry& lost) const;
  // Lets those that have ended go.
  void Reap() const;

 private:
  std::string command_;
};

}  // namespace ucp
