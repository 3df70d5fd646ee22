#include "runtime/save/kept_checkpoints.h"

#include <llvm/Support/Error.h>

#include <utility>

#include "compiler/files/destination_names.h"

namespace ucp {

void KeptCheckpoints::Add(FileSystem& files, const std::string& newest, std::uint64_t most) {
  if (most == 0) return;
  std::erase(paths_, newest);
  paths_.push_back(newest);
  while (paths_.size() > most) {
    // Half a checkpoint has no name. Errors do not matter: the newest ones are what counts.
    const std::string hidden = BesideDestination(paths_.front(), "partial");
    llvm::Error error = files.Rename(paths_.front(), hidden);
    llvm::consumeError(files.RemoveTree(error ? paths_.front() : hidden));
    llvm::consumeError(std::move(error));
    paths_.pop_front();
  }
}

}  // namespace ucp
