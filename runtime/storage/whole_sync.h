// Making all that was written to a file system durable in one call: for thousands of small files a call for each takes
// several times as long.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <memory>
#include <string>

namespace ucp {

class WholeSync {
 public:
  virtual ~WholeSync() = default;
  // Returns how many files and folders this is worth it for: it also waits for the writes of others to this file
  // system.
  virtual std::size_t least_paths() const { return 256; }
  // Makes all that was written to the file system durable, names included. Fails with kIo as well if any
  // write to it, ours or another's, was lost since this object was made, whether or not anybody was informed.
  [[nodiscard]] virtual llvm::Error Sync() = 0;
};

// Opens a sync of the operating system's file system that holds `folder`. Fails with kUnsupported and the reason where
// one call would not make everything durable, or would be silent about an error.
llvm::Expected<std::unique_ptr<WholeSync>> OpenRealWholeSync(const std::string& folder);

}  // namespace ucp
