// The decisions of a coordinator, in a file that outlives it: one line for each entry, `CHECKSUM JSON`. A line is
// durable when Append() returns (H5). The last line may be torn, since the machine can stop while it is written; it
// then counts for nothing.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/files/descriptor.h"
#include "runtime/coordinator/registry.h"

namespace ucp {

class DecisionJournal final : public Registry {
 public:
  // Opens the file, or begins it. Fails with kUsage if another coordinator has it, and with kBadData, naming the line,
  // if one that is not the last is damaged.
  static llvm::Expected<DecisionJournal> Open(const std::string& path);

  std::vector<CoordinatorEntry> TakeEntries() override { return std::move(entries_); }
  std::string PlaceOf(std::size_t entry) const override;
  // If it fails, the journal ends with the entries before.
  [[nodiscard]] llvm::Error Append(const std::vector<CoordinatorEntry>& entries) override;
  // The lock of the file lasts as long as the process.
  [[nodiscard]] llvm::Error Keep() override { return llvm::Error::success(); }

 private:
  DecisionJournal(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  llvm::Expected<std::size_t> ReadEntries(std::string_view text);

  std::string path_;
  Descriptor file_;
  std::vector<CoordinatorEntry> entries_;
  std::uint64_t bytes_ = 0;  // That are whole.
};

}  // namespace ucp
