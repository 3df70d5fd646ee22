// The folders in a folder that may be the checkpoint that is meant, if the folder itself does not say.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp {

struct Candidate {
  std::string name;
  std::vector<std::string> formats;  // The names of those that know it. Never empty.
  bool is_root = false;              // It has a file `latest`, and is not a checkpoint itself.
};

// Returns the candidates by name. Hidden folders are none, and neither is a link to another candidate.
llvm::Expected<std::vector<Candidate>> FindCandidates(ReadableFileSystem& files, const std::string& folder);

// "global_step3, global_step9 (deepspeed), universal (universal)"
std::string Listed(const std::vector<Candidate>& candidates);

}  // namespace ucp
