// The arguments in the files of all ranks: they are of one job, and each is of another of its processes.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/formats/source_archives.h"
#include "compiler/layout/inventory.h"

namespace ucp::megatron {

class SameJob {
 public:
  // `first`: the facts of the first file, which must outlive this object, and be there before Take().
  SameJob(std::string folder, const std::map<std::string, Fact>& first) : folder_(std::move(folder)), first_(first) {}

  // Fails (kBadData) if the arguments of a rank's file are not those of the first one.
  llvm::Error Take(const SourceArchive& file);

  // Of all files that were taken. Fails (kBadData) if one process saved two of them, and another process a third: one
  // is a copy. A tool that converts models writes one process's arguments into all files.
  llvm::Error CheckProcesses() const;

 private:
  const std::string folder_;
  const std::map<std::string, Fact>& first_;
  std::string first_file_;
  std::map<std::int64_t, std::vector<std::string>> files_;  // By the process that saved them.
};

}  // namespace ucp::megatron
