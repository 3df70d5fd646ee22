// The decisions of a coordinator, in a file that outlives it: one line for each entry, `CHECKSUM JSON`. A line is
// durable when Append() returns (H5). The last line may be torn, since the machine can stop while it is written; it
// then counts for nothing.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/descriptor.h"
#include "runtime/coordinator/entry.h"

namespace ucp {

class DecisionJournal {
 public:
  // Opens the file, or begins it. Fails with kUsage if another coordinator has it, and with kBadData, naming the line,
  // if one that is not the last is damaged.
  static llvm::Expected<DecisionJournal> Open(const std::string& path);

  // The entries of earlier coordinators. Can be taken once.
  std::vector<CoordinatorEntry> TakeEntries() { return std::move(entries_); }

  // Fails with kIo. The journal then ends with the entries before.
  [[nodiscard]] llvm::Error Append(const std::vector<CoordinatorEntry>& entries);

 private:
  DecisionJournal(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  llvm::Expected<std::size_t> ReadEntries(std::string_view text);

  std::string path_;
  Descriptor file_;
  std::vector<CoordinatorEntry> entries_;
  std::uint64_t bytes_ = 0;  // That are whole.
};

}  // namespace ucp
